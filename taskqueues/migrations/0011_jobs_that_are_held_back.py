"""Let queued jobs say before when, and at which places, they are not matched."""

import django.contrib.postgres.fields
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("taskqueues", "0010_owners_who_are_members")]

    operations = [
        migrations.AddField(
            model_name="queuedjob",
            name="is_held_back",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Whether the columns below restrict when and where it may be matched.",
            ),
        ),
        migrations.AddField(
            model_name="queuedjob",
            name="not_before",
            field=models.DateTimeField(help_text="No pilot gets it before; by the database's clock.", null=True),
        ),
        migrations.AddField(
            model_name="queuedjob",
            name="avoided_until",
            field=models.DateTimeField(help_text="Time until which the places below do not get it.", null=True),
        ),
        migrations.AddField(
            model_name="queuedjob",
            name="avoided_queue_ids",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.BigIntegerField(),
                help_text="Queues that gave it back, the latest last.",
                null=True,
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="queuedjob",
            name="avoided_host",
            field=models.CharField(
                help_text="Only host avoided at these queues; none: the whole queues are avoided.",
                max_length=255,
                null=True,
            ),
        ),
        migrations.AddConstraint(
            model_name="queuedjob",
            constraint=models.CheckConstraint(
                name="a_job_that_is_held_back_says_until_when",
                condition=Q(is_held_back=True, not_before__isnull=False)
                | Q(is_held_back=False, not_before__isnull=True, avoided_until__isnull=True),
            ),
        ),
        migrations.AddConstraint(
            model_name="queuedjob",
            constraint=models.CheckConstraint(
                name="a_place_is_avoided_until_some_time",
                condition=Q(avoided_until__isnull=True, avoided_queue_ids__isnull=True, avoided_host__isnull=True)
                | Q(avoided_until__isnull=False, avoided_queue_ids__isnull=False),
            ),
        ),
    ]
