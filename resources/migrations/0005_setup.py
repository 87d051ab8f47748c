from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0004_output_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="computingelement",
            name="setup",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Setup of the pilots here, for VOs that have it; empty: not chosen here.",
                max_length=64,
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="setup",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Setup of the pilots here, for VOs that have it; empty: that of the computing element.",
                max_length=64,
            ),
        ),
        migrations.AddField(
            model_name="sitetoken",
            name="setup",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Setup of the pilots that register with it and choose none; empty: that of their queue.",
                max_length=64,
            ),
        ),
    ]
