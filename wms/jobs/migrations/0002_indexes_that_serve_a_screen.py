"""Leave the indexes and constraints of jobs that somebody needs: each change of a status pays for all of them."""

import django.db.models.deletion
from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # indexes are made while jobs go on

    dependencies = [
        ("accounts", "0001_initial"),
        ("jobs", "0001_initial"),
        ("resources", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(fields=["vo", "group"], name="job_of_vo_and_group"),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(fields=["site"], condition=models.Q(("site__isnull", False)), name="job_of_site"),
        ),
        migrations.AlterField(
            model_name="job",
            name="owner",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="jobs",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="group",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="jobs",
                to="accounts.group",
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="vo",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                help_text="The group's.",
                on_delete=django.db.models.deletion.PROTECT,
                related_name="jobs",
                to="accounts.vo",
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="site",
            field=models.ForeignKey(
                db_index=False,
                help_text="Of the last match.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="jobs",
                to="resources.site",
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="output_sandbox",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="jobs.sandbox",
            ),
        ),
        migrations.AlterField(
            model_name="jobhistory",
            name="job",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="history",
                to="jobs.job",
            ),
        ),
        # Room in each page for the next version of a row: a heartbeat, which touches no indexed column, then writes
        # no index at all, and a change of status no second page of the table.
        migrations.RunSQL("ALTER TABLE jobs_job SET (fillfactor = 80)", "ALTER TABLE jobs_job RESET (fillfactor)"),
    ]
