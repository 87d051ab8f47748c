"""Count changes of a lease."""

from django.db import migrations, models


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
    ]
