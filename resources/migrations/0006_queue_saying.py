"""What a queue's parameters say, in a column by which equal ones are found fast."""

from django.db import migrations, models
from django.db.models.functions import MD5, Cast, Concat


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0005_site_throttle"),
    ]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="saying",
            field=models.GeneratedField(
                db_persist=True,
                expression=MD5(
                    Concat(Cast("parameters", models.TextField()), Cast("vo_parameters", models.TextField()))
                ),
                output_field=models.CharField(max_length=32),
            ),
        ),
    ]
