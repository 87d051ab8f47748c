"""Let the claim write no more than somebody needs, and look nothing up twice."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0003_constraints_that_cost_little"),
        ("kernel", "0001_database_clock"),
        ("matching", "0003_ended_leases"),
        ("pilots", "0003_constraints_that_cost_little"),
        ("resources", "0001_initial"),
        ("taskqueues", "0004_deliveries"),
    ]

    operations = [
        migrations.AlterField(
            model_name="match",
            name="cpu_segment_s",
            field=models.IntegerField(default=0, help_text="CPU segment of the task queue it came from."),
        ),
        migrations.AlterField(
            model_name="match",
            name="job",
            field=models.ForeignKey(
                db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name="matches", to="jobs.job"
            ),
        ),
        migrations.AlterField(
            model_name="match",
            name="ordinal",
            field=models.SmallIntegerField(default=0, help_text="Number of the lease within its request, from 0."),
        ),
        migrations.AlterField(
            model_name="match",
            name="pilot",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="matches",
                to="pilots.pilot",
            ),
        ),
        migrations.AlterField(
            model_name="match",
            name="queue",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="resources.queue",
            ),
        ),
    ]
