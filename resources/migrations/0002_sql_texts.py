"""Install functions, triggers and views; drop the indexes that Django makes beside others and that no query uses."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [("resources", "0001_squashed_0_1_0"), ("accounts", "0001_squashed_0_1_0")]
    operations = [
        InstallTexts("resources", digest="9a885c736890df19e86da1199f342abf64acf3e1b3fc30e8ba9278b33e1a41d2"),
        migrations.RunSQL(
            """
            DROP INDEX IF EXISTS
                resources_platform_name_4664ca65_like,
                resources_site_name_334eebe1_like,
                resources_storageelement_name_6a30e9d0_like,
                resources_requirementdefin_requirementdefinition_id_d3bc5f34,
                resources_site_storage_elements_site_id_d94742da,
                resources_site_vos_site_id_40118501,
                resources_storageelement_vos_storageelement_id_17653a06
            """,
            migrations.RunSQL.noop,
        ),
    ]
