-- Rows about one attempt of a job, written by reports on its lease (ADR 63): the last lines of output, and samples of the
-- usage over time, few and spread evenly, for charts. The caller has locked the job.

-- Store last lines, compressed, and why the payload failed. Null: what is stored stays.
CREATE FUNCTION wms_store_tails(
    the_job bigint,
    the_attempt smallint,
    the_std_output bytea,
    the_std_error bytea,
    the_cause_line text DEFAULT NULL,
    the_cause text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_outputtail AS its
       SET std_output = coalesce(the_std_output, its.std_output),
           std_error = coalesce(the_std_error, its.std_error),
           cause_line = coalesce(the_cause_line, its.cause_line),
           cause = coalesce(the_cause, its.cause)
     WHERE its.job_id = the_job AND its.attempt = the_attempt;
    IF NOT FOUND THEN
        -- Nobody else inserts the row of a locked job. ON CONFLICT would log each insertion twice.
        INSERT INTO jobs_outputtail (job_id, attempt, std_output, std_error, cause_line, cause)
        VALUES (
            the_job, the_attempt, the_std_output, the_std_error, coalesce(the_cause_line, ''), coalesce(the_cause, '')
        );
    END IF;
END
$$;

-- A sample is four numbers of two bytes (wms/jobs/domain/samples.py reads them): the time since the start in 1,024ths of the
-- step, then CPU seconds, memory and disk as codes.

-- The code of an amount: its logarithm, so that amounts up to 780 million are stored with 0.03 %. Null, not measured: -1.
CREATE FUNCTION wms_code_of_amount(amount double precision) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE WHEN amount >= 0 THEN least(32767, round(1600 * ln(1 + amount))) ELSE -1 END)::smallint
$$;

-- The first sample of each step of so many times the length.
CREATE FUNCTION wms_thinned_samples(samples smallint[], times integer) RETURNS smallint[] LANGUAGE sql AS $$
    SELECT array_agg(
               (samples[place + number] / CASE number WHEN 0 THEN times ELSE 1 END)::smallint ORDER BY place, number
           )
      FROM (
          SELECT min(place) AS place FROM generate_series(1, cardinality(samples), 4) AS its (place)
           GROUP BY samples[place] / (1024 * times)
      ) AS of_step, generate_series(0, 3) AS its (number)
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
    -- One heartbeat: a job of three minutes has three samples or four.
    first_step_s CONSTANT integer := 30;
    -- Of the first step that has a sample: the shape of a job of a minute is of no interest, and its row would be most of
    -- what its heartbeats write.
    first_number CONSTANT integer := 3;
    -- Half of them or more are there however long the job runs: 17 of a job of 36 hours, in 192 bytes at most.
    most_samples CONSTANT integer := 24;
    -- Samples for which there is room at first; it is doubled when it is full. One that is written into the room changes
    -- eight bytes of the row; one that makes the row longer writes all of them to the WAL again.
    first_room CONSTANT integer := 6;
    -- Of a sample.
    numbers CONSTANT integer := 4;
    -- In the place of a number of a sample that is not taken yet.
    free CONSTANT smallint := -2;
    -- Whole, as they are read.
    elapsed_s CONSTANT bigint := floor(extract(epoch FROM right_now - started_at));
    before_s CONSTANT bigint := floor(extract(epoch FROM reported_at - started_at));
    the_step_s integer := first_step_s;
    stored record;
    is_stored boolean;
    kept smallint[] := '{}';
    room integer := numbers * first_room;
BEGIN
    IF (elapsed_s / first_step_s > greatest(first_number - 1, before_s / first_step_s)) IS NOT TRUE THEN
        RETURN false;
    END IF;
    WHILE elapsed_s >= most_samples * the_step_s LOOP
        the_step_s := 2 * the_step_s;
    END LOOP;
    IF elapsed_s / the_step_s <= before_s / the_step_s THEN
        RETURN false;
    END IF;
    SELECT its.step_s, its.samples INTO stored
      FROM jobs_usagesamples AS its WHERE its.job_id = the_job AND its.attempt = the_attempt;
    is_stored := FOUND;
    IF is_stored THEN
        kept := stored.samples[1:coalesce(array_position(stored.samples, free) - 1, cardinality(stored.samples))];
        IF stored.step_s < the_step_s THEN
            kept := wms_thinned_samples(kept, the_step_s / stored.step_s);
        END IF;
        -- Clocks may be set back.
        IF kept[cardinality(kept) - numbers + 1] / 1024 >= elapsed_s / greatest(the_step_s, stored.step_s) THEN
            RETURN false;
        END IF;
        the_step_s := greatest(the_step_s, stored.step_s);
    END IF;
    kept := kept || ARRAY[
        (elapsed_s * 1024 / the_step_s)::smallint, wms_code_of_amount(the_cpu_s), wms_code_of_amount(the_memory_mb),
        wms_code_of_amount(the_disk_mb)
    ];
    WHILE room < cardinality(kept) LOOP
        room := 2 * room;
    END LOOP;
    kept := kept || array_fill(free, ARRAY[room - cardinality(kept)]);
    IF is_stored THEN
        UPDATE jobs_usagesamples AS its SET step_s = the_step_s, samples = kept
         WHERE its.job_id = the_job AND its.attempt = the_attempt;
    ELSE
        INSERT INTO jobs_usagesamples (job_id, attempt, step_s, samples)
        VALUES (the_job, the_attempt, the_step_s, kept);
    END IF;
    RETURN true;
END
$$;
