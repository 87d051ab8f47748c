"""Tokens from before are valid for the VOs that their sites serve now: it is not known whom they served at first."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0006_site_token_vos"),
    ]

    operations = [
        migrations.RunSQL(
            """
            UPDATE resources_sitetoken AS token
            SET vo_ids = (SELECT array_agg(served.vo_id) FROM resources_site_vos AS served
                          WHERE served.site_id = token.site_id)
            """,
            migrations.RunSQL.noop,
        ),
    ]
