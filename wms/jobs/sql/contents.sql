-- What the jobs of a submission have in common (ADR 59): noted when jobs come and when one is edited.

CREATE FUNCTION wms_common_prefix(one text, other text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(one, coalesce(max(length), 0))
      FROM generate_series(1, least(length(one), length(other))) AS length
     WHERE left(one, length) = left(other, length)
$$;

-- Different texts in their order; none if there are more than 16, which are too many to be noted.
CREATE FUNCTION wms_few(texts text[]) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN count(*) BETWEEN 1 AND 16 THEN array_agg(each ORDER BY each COLLATE "C") ELSE '{}' END
      FROM (SELECT DISTINCT each FROM unnest(texts) AS each) AS different
$$;
CREATE FUNCTION wms_few_of_both(one text[], other text[]) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN '{}' IN (one, other) THEN '{}' ELSE wms_few(one || other) END
$$;

-- Adds what some jobs of a submission have in common to what is known of it.
CREATE FUNCTION wms_note_content(found jobs_submissioncontent) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_submissioncontent AS known SELECT found.*
    ON CONFLICT (submission_id) DO UPDATE SET
       (owner_id, group_id, vo_id) = (excluded.owner_id, excluded.group_id, excluded.vo_id),
       submitted_at = CASE WHEN known.submitted_at = excluded.submitted_at THEN known.submitted_at END,
       job_type = CASE WHEN known.job_type = excluded.job_type THEN known.job_type END,
       job_group = CASE WHEN known.job_group = excluded.job_group THEN known.job_group END,
       (name_prefix, name_rest, name_stems) = (
           SELECT CASE name_rest WHEN 'nothing' THEN known.name_prefix WHEN 'digits' THEN stem
                       ELSE wms_common_prefix(known.name_prefix, excluded.name_prefix) END,
                  name_rest,
                  CASE WHEN name_rest = 'anything' THEN wms_few_of_both(
                      coalesce(known.name_stems, ARRAY[stem]), coalesce(excluded.name_stems, ARRAY[other_stem])
                  ) END
             FROM (
                 SELECT rtrim(known.name_prefix, '0123456789'), rtrim(excluded.name_prefix, '0123456789')
             ) AS stems (stem, other_stem),
             LATERAL (
                 SELECT CASE WHEN (known.name_rest, excluded.name_rest, known.name_prefix)
                                  = ('nothing', 'nothing', excluded.name_prefix) THEN 'nothing'
                             WHEN 'anything' NOT IN (known.name_rest, excluded.name_rest) AND stem = other_stem
                             THEN 'digits' ELSE 'anything' END
             ) AS its (name_rest)
       ),
       first_job_id = least(known.first_job_id, excluded.first_job_id),
       last_job_id = greatest(known.last_job_id, excluded.last_job_id),
       labels = CASE WHEN known.job_group = excluded.job_group THEN NULL ELSE wms_few_of_both(
           coalesce(known.labels, ARRAY[known.job_group]), coalesce(excluded.labels, ARRAY[excluded.job_group])
       ) END;
END
$$;

-- Jobs are inserted: their contents are noted, and they are counted (counts.sql).
CREATE FUNCTION wms_jobs_come() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM wms_note_content(ROW(
        submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group,
        CASE name_rest WHEN 'nothing' THEN first_name WHEN 'digits' THEN first_stem
             ELSE wms_common_prefix(first_name, last_name) END,
        name_rest, first_job_id, last_job_id,
        CASE WHEN job_group IS NULL THEN wms_few(ARRAY(
            SELECT DISTINCT job.job_group FROM changed AS job WHERE job.submission_id = common.submission_id LIMIT 17
        )) END,
        CASE WHEN name_rest = 'anything' THEN wms_few(ARRAY(
            SELECT DISTINCT rtrim(job.job_name, '0123456789')
              FROM changed AS job WHERE job.submission_id = common.submission_id LIMIT 17
        )) END
    )::jobs_submissioncontent)
      FROM (
          SELECT submission_id, min(owner_id) AS owner_id, min(group_id) AS group_id, min(vo_id) AS vo_id,
                 CASE WHEN min(submitted_at) = max(submitted_at) THEN min(submitted_at) END AS submitted_at,
                 CASE WHEN min(job_type) = max(job_type) THEN min(job_type) END AS job_type,
                 CASE WHEN min(job_group) = max(job_group) THEN min(job_group) END AS job_group,
                 min(job_name COLLATE "C") AS first_name, max(job_name COLLATE "C") AS last_name,
                 min(rtrim(job_name, '0123456789') COLLATE "C") AS first_stem,
                 max(rtrim(job_name, '0123456789') COLLATE "C") AS last_stem,
                 min(id) AS first_job_id, max(id) AS last_job_id
            FROM changed GROUP BY submission_id
      ) AS common,
      LATERAL (
          SELECT CASE WHEN first_name = last_name THEN 'nothing' WHEN first_stem = last_stem THEN 'digits'
                      ELSE 'anything' END AS name_rest
      ) AS its;
    INSERT INTO jobs_jobcountchange (
        submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, exit_code_before,
        status_after, site_after_id, exit_code_after, jobs
    )
    SELECT submission_id, owner_id, group_id, vo_id, job_type, NULL, NULL, NULL,
           status, site_id, wms_counted_exit_code(status, exit_code), count(*)
      FROM changed GROUP BY submission_id, owner_id, group_id, vo_id, job_type, status, site_id, 11;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_come AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_jobs_come();

CREATE FUNCTION wms_job_is_edited() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM wms_note_content(ROW(
        NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.submitted_at, NEW.job_type, NEW.job_group,
        NEW.job_name, 'nothing', NEW.id, NEW.id, NULL, NULL
    )::jobs_submissioncontent);
    RETURN NULL;
END
$$;
CREATE TRIGGER job_is_edited
    AFTER UPDATE OF submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, job_name ON jobs_job
    FOR EACH ROW WHEN (
        (OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.submitted_at, OLD.job_type, OLD.job_group, OLD.job_name)
        IS DISTINCT FROM
        (NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.submitted_at, NEW.job_type, NEW.job_group, NEW.job_name)
    )
    EXECUTE FUNCTION wms_job_is_edited();
