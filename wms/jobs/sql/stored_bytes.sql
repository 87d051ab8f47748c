-- Bytes that users have stored, by VO: triggers of the uploads add and subtract them, so that a quota is checked by a key
-- and not by a scan. Rows are written in the order of their keys, because two statements may write the same ones.
CREATE FUNCTION wms_count_stored_bytes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    -- A block of the disk, which the smallest content takes, too.
    least_bytes CONSTANT bigint := 4096;
    sign CONSTANT bigint := CASE TG_OP WHEN 'DELETE' THEN -1 ELSE 1 END;
BEGIN
    INSERT INTO jobs_storedbytes AS known (owner_id, vo_id, input_bytes, output_bytes)
    SELECT its.owner_id, its.vo_id,
           coalesce(sign * sum(greatest(sandbox.size_bytes, least_bytes)) FILTER (WHERE NOT its.is_output), 0),
           coalesce(sign * sum(greatest(sandbox.size_bytes, least_bytes)) FILTER (WHERE its.is_output), 0)
      FROM changed AS its JOIN jobs_sandbox AS sandbox ON sandbox.id = its.sandbox_id
     GROUP BY its.owner_id, its.vo_id
     ORDER BY its.owner_id, its.vo_id
        ON CONFLICT (owner_id, vo_id) DO UPDATE
       SET input_bytes = known.input_bytes + excluded.input_bytes,
           output_bytes = known.output_bytes + excluded.output_bytes;
    RETURN NULL;
END
$$;
CREATE TRIGGER uploads_come AFTER INSERT ON jobs_sandboxupload REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_count_stored_bytes();
CREATE TRIGGER uploads_go AFTER DELETE ON jobs_sandboxupload REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_count_stored_bytes();
