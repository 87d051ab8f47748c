"""Drop indexes that Django makes beside others, and that no query uses."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("resources", "0019_plain_help_texts")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX IF EXISTS resources_platform_name_4664ca65_like",
            "CREATE INDEX resources_platform_name_4664ca65_like ON resources_platform (name varchar_pattern_ops)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS resources_site_name_334eebe1_like",
            "CREATE INDEX resources_site_name_334eebe1_like ON resources_site (name varchar_pattern_ops)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS resources_storageelement_name_6a30e9d0_like",
            "CREATE INDEX resources_storageelement_name_6a30e9d0_like ON resources_storageelement (name varchar_pattern_ops)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS resources_requirementdefin_requirementdefinition_id_d3bc5f34",
            "CREATE INDEX resources_requirementdefin_requirementdefinition_id_d3bc5f34 ON resources_requirementdefinition_vos (requirementdefinition_id)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS resources_site_storage_elements_site_id_d94742da",
            "CREATE INDEX resources_site_storage_elements_site_id_d94742da ON resources_site_storage_elements (site_id)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS resources_site_vos_site_id_40118501",
            "CREATE INDEX resources_site_vos_site_id_40118501 ON resources_site_vos (site_id)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS resources_storageelement_vos_storageelement_id_17653a06",
            "CREATE INDEX resources_storageelement_vos_storageelement_id_17653a06 ON resources_storageelement_vos (storageelement_id)",
        ),
    ]
