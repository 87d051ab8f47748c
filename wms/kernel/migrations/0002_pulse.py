"""Signs of life, for /readyz."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Create the table of pulses."""

    dependencies = [("kernel", "0001_database_clock")]
    operations = [
        migrations.CreateModel(
            name="Pulse",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("beaten_at", models.DateTimeField()),
            ],
        ),
    ]
