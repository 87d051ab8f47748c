from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_sql_texts"), ("accounts", "0003_sql_texts")]
    operations = [
        migrations.CreateModel(
            name="MadeToday",
            fields=[
                (
                    "owner",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("day", models.DateField(help_text="In UTC, by the database's clock.")),
                (
                    "jobs",
                    models.BigIntegerField(help_text="Jobs submitted, in groups without the property PRODUCTION."),
                ),
                (
                    "description_bytes",
                    models.BigIntegerField(help_text="Size of their descriptions, and of those of edited jobs."),
                ),
            ],
        ),
    ]
