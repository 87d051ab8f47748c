"""Count changes of a lease; install functions, triggers and views."""

from django.db import migrations, models

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0002_sql_texts"),
        ("jobs", "0004_stored_bytes"),
        ("pilots", "0006_cut_usage"),
    ]
    operations = [
        migrations.AddField(
            model_name="match",
            name="changes",
            field=models.SmallIntegerField(
                db_default=0,
                default=0,
                help_text="Reports that changed minor or application status, but not the status.",
            ),
        ),
        migrations.AddField(
            model_name="match",
            name="output_names",
            field=models.SmallIntegerField(
                db_default=0,
                default=0,
                help_text="Logical names that were new when it reserved or registered them.",
            ),
        ),
        InstallTexts("matching", digest="bda74892cb4be40053943fdc45e5652cf6ee3f1ed364b517b63f5d8e3c36f67d"),
    ]
