-- The condition of the check constraint of jobs, so it is never dropped. PostgreSQL parses the text of a constraint anew
-- with each statement that changes a row; what a function in PL/pgSQL evaluates it keeps for the session. Its parameters
-- have the columns' own types, so that the constraint has no casts.
CREATE OR REPLACE FUNCTION wms_job_is_possible(
    status varchar, ended_at timestamptz, priority smallint, reschedules smallint
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN status = ANY (
               CASE WHEN ended_at IS NULL
                    THEN '{Checking,Completing,Held,Matched,Received,Rescheduled,Running,Stalled,Waiting}'::text[]
                    ELSE '{Deleted,Done,Failed,Killed}'::text[] END
           )
       AND priority BETWEEN 0 AND 10 AND reschedules >= 0;
END
$$;
