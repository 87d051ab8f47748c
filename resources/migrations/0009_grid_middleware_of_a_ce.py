"""Let a computing element name its grid middleware, by which jobs may ask for pilots there."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0008_stall_rule_of_a_queue"),
    ]

    operations = [
        migrations.AddField(
            model_name="computingelement",
            name="middleware",
            field=models.CharField(
                blank=True,
                help_text="Name by which jobs may ask for pilots at such computing elements; empty: the type.",
                max_length=128,
                verbose_name="grid middleware",
            ),
        ),
    ]
