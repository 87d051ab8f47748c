"""Jobs with input data: where all of it is, and how those that wait for a file are found."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.fields.json
from django.conf import settings
from django.db import migrations, models

import wms.jobs.domain.lifecycle


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_sharing_of_a_vo"),
        ("jobs", "0004_where_jobs_are_held"),
        ("resources", "0004_replicas"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SiteLayout",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("digest", models.BinaryField(help_text="SHA-256.", max_length=32)),
            ],
        ),
        migrations.AddField(
            model_name="job",
            name="input_sites",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=128),
                help_text="Sites with all of its input data, as of its enqueueing; null: it has no input data.",
                null=True,
                size=None,
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=django.contrib.postgres.indexes.GinIndex(
                django.db.models.fields.json.KeyTransform("input_data", "description"),
                condition=models.Q(
                    ("input_sites__isnull", False),
                    (
                        "status__in",
                        [
                            wms.jobs.domain.lifecycle.JobStatus["CHECKING"],
                            wms.jobs.domain.lifecycle.JobStatus["WAITING"],
                        ],
                    ),
                ),
                name="job_of_input_file",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    ("input_sites__isnull", False),
                    (
                        "status__in",
                        [
                            wms.jobs.domain.lifecycle.JobStatus["CHECKING"],
                            wms.jobs.domain.lifecycle.JobStatus["WAITING"],
                        ],
                    ),
                ),
                fields=["id"],
                name="job_with_input_data",
            ),
        ),
        migrations.AddConstraint(
            model_name="sitelayout",
            constraint=models.CheckConstraint(condition=models.Q(("id", 1)), name="site_layout_has_one_row"),
        ),
    ]
