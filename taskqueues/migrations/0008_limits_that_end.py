"""Bounds within which the time until the next match of a limit is a date."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("taskqueues", "0007_stale_submit_pools"),
    ]

    operations = [
        migrations.AlterField(
            model_name="limit",
            name="burst",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Matches at once after a pause.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="limit",
            name="delay_s",
            field=models.FloatField(
                blank=True,
                help_text="Mean seconds between two matches.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(86400.0),
                ],
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(("delay_s__gte", 0), ("delay_s__lte", 86400.0)), name="limit_delay_is_at_most_a_day"
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(("burst__gte", 1), ("burst__lte", 100000)),
                name="limit_burst_is_at_least_one_and_not_endless",
            ),
        ),
    ]
