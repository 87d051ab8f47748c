"""The buckets of the accounting, which begins with the first run of its task (ADR 64)."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0012_indexes_that_no_query_uses"),
        ("jobs", "0028_usage_samples"),
        ("resources", "0020_indexes_that_no_query_uses"),
    ]

    operations = [
        migrations.CreateModel(
            name="JobBucketPeriod",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "width_s", "begun_at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("width_s", models.IntegerField()),
                ("begun_at", models.DateTimeField()),
                ("samples", models.IntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Accounting",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("seen", models.TextField(help_text="Position in the stream of changes: a snapshot (ADR 62).")),
                ("began_at", models.DateTimeField(help_text="What happened earlier is in no bucket.")),
                ("sampled_at", models.DateTimeField(help_text="Last sample of levels.", null=True)),
                ("runs", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="accounting_has_one_row")],
            },
        ),
        migrations.CreateModel(
            name="JobBucket",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("width_s", models.IntegerField(help_text="Length of the bucket, as in ``domain.accounting.Width``.")),
                ("begun_at", models.DateTimeField()),
                ("job_type", models.CharField(max_length=255)),
                (
                    "started",
                    models.IntegerField(
                        db_default=0, help_text="Starts of payloads; one that stalls and goes on is one."
                    ),
                ),
                ("done", models.IntegerField(db_default=0)),
                ("failed", models.IntegerField(db_default=0)),
                ("killed", models.IntegerField(db_default=0)),
                ("cpu_s", models.FloatField(db_default=0.0, help_text="CPU time of the jobs that ended.")),
                (
                    "wall_s",
                    models.FloatField(
                        db_default=0.0, help_text="Wall-clock time times processors of the jobs that ended."
                    ),
                ),
                ("running", models.FloatField(db_default=0.0, help_text="Jobs that a pilot had.")),
                ("waiting", models.FloatField(db_default=0.0, help_text="Jobs in a task queue, or about to be.")),
                (
                    "waiting_for_data",
                    models.FloatField(db_default=0.0, help_text="Jobs of which no site held all input data."),
                ),
                (
                    "waiting_for_room",
                    models.FloatField(db_default=0.0, help_text="Jobs whose quota of waiting jobs was full."),
                ),
                ("held", models.FloatField(db_default=0.0)),
                (
                    "group",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="accounts.group",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="accounts.user",
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        help_text="Null: the jobs had no site, as while they wait.",
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="resources.site",
                    ),
                ),
                (
                    "vo",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="accounts.vo",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("width_s", "begun_at", "owner", "group", "site", "job_type"),
                        name="job_bucket_is_one_row",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
    ]
