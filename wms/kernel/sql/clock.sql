-- The clock by which leases, delays, advertisements and expiry are measured (docs/architecture.md, Time): the time of
-- the statement, moved by the setting that only tests use. A column's default calls it, so it is never dropped.
CREATE OR REPLACE FUNCTION wms_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT statement_timestamp()
         + make_interval(secs => coalesce(nullif(current_setting('wms.clock_offset_s', true), ''), '0')::double precision)
$$;
