"""The VOs for which a token of a site is valid."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0005_setup"),
    ]

    operations = [
        migrations.AddField(
            model_name="sitetoken",
            name="vo_ids",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.BigIntegerField(),
                editable=False,
                help_text="The VOs that the site served when it was made; it is for no others. Empty: it served all.",
                null=True,
                size=None,
            ),
        ),
    ]
