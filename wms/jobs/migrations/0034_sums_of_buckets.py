"""Sums of the accounting by property, and jobs that no batch queue fits apart (ADR 64)."""

from django.db import migrations, models

_SUM_UP = """
    INSERT INTO jobs_jobbucketsum (
        width_s, begun_at, grouping, key, job_type, started, done, failed, killed, cpu_s, wall_s, running, waiting,
        waiting_unmatched, waiting_for_data, waiting_for_room, held
    )
    SELECT width_s, begun_at, its.grouping, its.key, its.job_type, sum(started), sum(done), sum(failed), sum(killed),
           sum(cpu_s), sum(wall_s), sum(running), sum(waiting), sum(waiting_unmatched), sum(waiting_for_data),
           sum(waiting_for_room), sum(held)
      FROM jobs_jobbucket AS bucket
     CROSS JOIN LATERAL (
           VALUES ('site', coalesce(site_id, 0), ''), ('user', owner_id, ''), ('group', group_id, ''),
                  ('type', 0, bucket.job_type)
           ) AS its (grouping, key, job_type)
     GROUP BY 1, 2, 3, 4, 5
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0033_fewer_and_smaller_samples")]

    operations = [
        migrations.AddField(
            model_name="jobbucket",
            name="waiting_unmatched",
            field=models.FloatField(db_default=0.0, help_text="Jobs in a task queue that no batch queue fits."),
        ),
        migrations.AlterField(
            model_name="jobbucket",
            name="waiting",
            field=models.FloatField(db_default=0.0, help_text="Other jobs in a task queue, or about to be."),
        ),
        migrations.CreateModel(
            name="JobBucketSum",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("width_s", models.IntegerField(help_text="Length of the bucket, as in ``domain.accounting.Width``.")),
                ("begun_at", models.DateTimeField()),
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
                ("waiting", models.FloatField(db_default=0.0, help_text="Other jobs in a task queue, or about to be.")),
                (
                    "waiting_unmatched",
                    models.FloatField(db_default=0.0, help_text="Jobs in a task queue that no batch queue fits."),
                ),
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
                    "grouping",
                    models.CharField(help_text="The property, as in ``domain.accounting.Grouping``.", max_length=8),
                ),
                (
                    "key",
                    models.BigIntegerField(help_text="The site, user or group; 0: none, or the property is the type."),
                ),
                (
                    "job_type",
                    models.CharField(help_text="Empty: none, or the property is another.", max_length=255),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("width_s", "grouping", "begun_at", "key", "job_type"),
                        name="job_bucket_sum_is_one_row",
                    )
                ],
            },
        ),
        migrations.RunSQL(_SUM_UP, migrations.RunSQL.noop),
    ]
