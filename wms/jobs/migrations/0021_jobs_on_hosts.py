"""Know the view of jobs by hosts, which the app of the matches makes; find contents of submissions by group.

The view of numbers by content takes the owner from the content, which has indexes for it.
"""

import django.db.models.deletion
from django.db import migrations, models

_VIEW = """
CREATE OR REPLACE VIEW jobs_currentcontentjobcount AS
    SELECT {owner}.owner_id, {owner}.group_id, {owner}.vo_id, count.status, count.jobs, count.submission_id, count.exit_code,
           content.submitted_at, content.job_type, content.job_group, content.name_prefix, content.name_rest
      FROM jobs_currentsubmissionjobcount AS count JOIN jobs_submissioncontent AS content USING (submission_id)
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0020_contents_of_submissions")]

    operations = [
        migrations.CreateModel(
            name="JobOnHost",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host_name", models.CharField(max_length=255)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="hosts",
                        to="jobs.job",
                    ),
                ),
            ],
            options={"db_table": "jobs_jobonhost", "managed": False},
        ),
        migrations.AddIndex("SubmissionContent", models.Index(fields=["group"], name="content_of_group")),
        migrations.RunSQL(_VIEW.format(owner="content"), _VIEW.format(owner="count")),
    ]
