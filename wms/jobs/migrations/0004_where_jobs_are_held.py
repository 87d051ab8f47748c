"""Keep the computing element of a held job, and find those held at a site."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import wms.jobs.domain.lifecycle
import wms.kernel.db


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_sharing_of_a_vo"),
        ("jobs", "0003_constraints_that_cost_little"),
        ("resources", "0002_throttle_states"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="ce",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="resources.computingelement",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    (
                        "status__one_of",
                        [
                            wms.jobs.domain.lifecycle.JobStatus["COMPLETING"],
                            wms.jobs.domain.lifecycle.JobStatus["MATCHED"],
                            wms.jobs.domain.lifecycle.JobStatus["RUNNING"],
                            wms.jobs.domain.lifecycle.JobStatus["STALLED"],
                        ],
                    )
                ),
                fields=["site", "status"],
                name="job_held_at_site",
            ),
        ),
    ]
