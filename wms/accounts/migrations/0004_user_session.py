from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_sql_texts"), ("sessions", "0001_initial")]
    operations = [
        migrations.CreateModel(
            name="UserSession",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="sessions.session",
                    ),
                ),
                ("begun_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL),
                ),
            ],
        ),
    ]
