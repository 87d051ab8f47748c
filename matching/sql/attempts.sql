-- Rows about one attempt of a job, written by reports on its lease (ADR 63): the last lines of output, and samples of the
-- usage over time, few and spread evenly, for charts. The caller has locked the job.

-- Store last lines, compressed. Null: those that are stored stay.
CREATE FUNCTION wms_store_tails(
    the_job bigint, the_attempt smallint, the_std_output bytea, the_std_error bytea
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_outputtail AS its (job_id, attempt, std_output, std_error)
    VALUES (the_job, the_attempt, the_std_output, the_std_error)
        ON CONFLICT (job_id, attempt) DO UPDATE
       SET std_output = coalesce(excluded.std_output, its.std_output),
           std_error = coalesce(excluded.std_error, its.std_error);
END
$$;

-- The first sample of each step of this length.
CREATE FUNCTION wms_thinned_samples(samples real[], step_s integer, numbers integer) RETURNS real[] LANGUAGE sql AS $$
    SELECT array_agg(samples[place + number] ORDER BY place, number)
      FROM (
          SELECT min(place) AS place FROM generate_series(1, cardinality(samples), numbers) AS its (place)
           GROUP BY floor(samples[place] / step_s)
      ) AS of_step, generate_series(0, numbers - 1) AS its (number)
$$;

-- Add a sample to those of an attempt if one is due; return whether it was. The time since the start is divided into steps,
-- each with one sample at most, of its first heartbeat; for all others nothing is read or written here. A step is as long
-- as needed for so many samples at most: it is doubled from time to time, and of two samples in one the first is kept.
CREATE FUNCTION wms_sample_usage(
    the_job bigint,
    the_attempt smallint,
    -- Of the payload; null: not started.
    started_at timestamptz,
    -- The report before this one.
    reported_at timestamptz,
    right_now timestamptz,
    -- Null: not measured.
    the_cpu_s double precision,
    the_memory_mb double precision,
    the_disk_mb double precision
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    -- Two heartbeats: the shape of a shorter job is of no interest.
    first_step_s CONSTANT integer := 60;
    -- A chart has some hundred pixels. Half of them or more are there however long the job runs, in 1,024 bytes.
    most_samples CONSTANT integer := 64;
    -- Samples for which there is room at first; it is doubled when it is full. One that is written into the room changes
    -- sixteen bytes of the row; one that makes the row longer writes all of them to the WAL again.
    first_room CONSTANT integer := 4;
    -- Of a sample: seconds since the start, CPU seconds, memory, disk.
    numbers CONSTANT integer := 4;
    -- In the place of a number: of a sample that is not taken yet, and of a value that was not measured.
    free CONSTANT real := 'nan';
    not_measured CONSTANT real := -1;
    -- Whole, so that they are the same when they are stored.
    elapsed_s CONSTANT real := floor(extract(epoch FROM right_now - started_at));
    before_s CONSTANT real := floor(extract(epoch FROM reported_at - started_at));
    the_step_s integer := first_step_s;
    stored record;
    used integer;
    kept real[] := '{}';
    room integer := numbers * first_room;
BEGIN
    IF (floor(elapsed_s / first_step_s) > greatest(0, floor(before_s / first_step_s))) IS NOT TRUE THEN
        RETURN false;
    END IF;
    WHILE elapsed_s >= most_samples * the_step_s LOOP
        the_step_s := 2 * the_step_s;
    END LOOP;
    IF floor(elapsed_s / the_step_s) <= floor(before_s / the_step_s) THEN
        RETURN false;
    END IF;
    SELECT its.step_s, its.samples INTO stored
      FROM jobs_usagesamples AS its WHERE its.job_id = the_job AND its.attempt = the_attempt;
    IF FOUND THEN
        used := coalesce(array_position(stored.samples, free) - 1, cardinality(stored.samples));
        kept := stored.samples[1:used];
        -- Clocks may be set back.
        IF floor(kept[used - numbers + 1] / the_step_s) >= floor(elapsed_s / the_step_s) THEN
            RETURN false;
        END IF;
        IF stored.step_s < the_step_s THEN
            kept := wms_thinned_samples(kept, the_step_s, numbers);
        END IF;
    END IF;
    -- Whole numbers: of very small ones PostgreSQL makes no real.
    kept := kept || ARRAY[
        elapsed_s, coalesce(round(the_cpu_s), not_measured), coalesce(round(the_memory_mb), not_measured),
        coalesce(round(the_disk_mb), not_measured)
    ]::real[];
    WHILE room < cardinality(kept) LOOP
        room := 2 * room;
    END LOOP;
    INSERT INTO jobs_usagesamples (job_id, attempt, step_s, samples)
    VALUES (the_job, the_attempt, the_step_s, kept || array_fill(free, ARRAY[room - cardinality(kept)]))
        ON CONFLICT (job_id, attempt) DO UPDATE SET step_s = excluded.step_s, samples = excluded.samples;
    RETURN true;
END
$$;
