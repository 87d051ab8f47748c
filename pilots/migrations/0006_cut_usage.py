from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pilots", "0005_director_requirements")]
    operations = [
        migrations.AddField(
            model_name="pilot",
            name="cut_usage",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="The last job for which it reported more CPU or wall-clock time than its lease allows.",
                max_length=255,
            ),
        ),
    ]
