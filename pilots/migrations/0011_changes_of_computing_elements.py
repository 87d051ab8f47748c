"""Note what a computing element was when it was looked at last, and since when pilots are held against it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pilots", "0010_pilot_stalled_at"),
    ]

    operations = [
        migrations.AddField(
            model_name="cehealth",
            name="described_as",
            field=models.CharField(
                blank=True,
                editable=False,
                help_text="Digest of its options, state and queues at the last check.",
                max_length=64,
            ),
        ),
        migrations.AddField(
            model_name="cehealth",
            name="judged_from",
            field=models.DateTimeField(
                blank=True,
                help_text="Failures of pilots submitted earlier do not count: it was changed, or an operator ended the pause.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="cehealth",
            name="stalls",
            field=models.TextField(
                blank=True, help_text="Which of its queues get no pilots now, because some did not start there."
            ),
        ),
    ]
