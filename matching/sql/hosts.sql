-- Jobs by the host of the pilot of their last match (wms.jobs.models.JobOnHost).
CREATE VIEW jobs_jobonhost AS
    SELECT job.id AS job_id, pilot.host_name
      FROM pilots_pilot AS pilot
      JOIN matching_match AS match ON match.pilot_id = pilot.id
      JOIN jobs_job AS job ON job.id = match.job_id AND job.pilot_id = pilot.id
     WHERE pilot.host_name <> '';
