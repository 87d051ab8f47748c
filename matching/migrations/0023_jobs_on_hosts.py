"""Make the view of jobs by the host of the pilot of their last match (wms.jobs.models.JobOnHost)."""

from django.db import migrations

VIEW = """
CREATE VIEW jobs_jobonhost AS
    SELECT job.id AS job_id, pilot.host_name
      FROM pilots_pilot AS pilot
      JOIN matching_match AS match ON match.pilot_id = pilot.id
      JOIN jobs_job AS job ON job.id = match.job_id AND job.pilot_id = pilot.id
     WHERE pilot.host_name <> ''
"""


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0022_ordered_ids_of_leases"),
        ("jobs", "0021_jobs_on_hosts"),
    ]

    operations = [migrations.RunSQL(VIEW, "DROP VIEW jobs_jobonhost")]
