from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pilots", "0003_rename_doubts_to_shortfalls")]
    operations = [
        migrations.AddField(
            model_name="director",
            name="setup",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Setup of the pilots that it sends, for VOs that have it, where queue and computing element "
                "choose none; empty: that of the jobs.",
                max_length=64,
            ),
        ),
        migrations.AddField(
            model_name="pilot",
            name="setup",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Setup chosen for the pilot itself; empty: that of its queue, else that of its VO.",
                max_length=64,
            ),
        ),
    ]
