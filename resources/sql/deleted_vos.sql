-- A site or definition that serves one VO alone must not serve all when that VO is deleted: the deletion is refused,
-- whoever makes it. At the end of the transaction: which VOs it deletes, and which rows it gives other VOs, is known
-- only then. To take the last VO from a row that stays, on purpose, is no deletion of a VO.
CREATE FUNCTION wms_none_serves_all_by_a_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    served_table CONSTANT text := TG_ARGV[0];
    reference CONSTANT text := TG_ARGV[1];
    name text;
BEGIN
    IF EXISTS (SELECT FROM accounts_vo WHERE id = OLD.vo_id) THEN
        RETURN NULL;
    END IF;
    EXECUTE format(
        'SELECT served.name FROM %I AS served WHERE served.id = $1'
        ' AND NOT EXISTS (SELECT FROM %I AS link WHERE link.%I = served.id)',
        served_table, TG_TABLE_NAME, reference
    ) INTO name USING (to_jsonb(OLD) ->> reference)::bigint;
    IF name IS NOT NULL THEN
        RAISE EXCEPTION '% serves only a VO that is being deleted, and would then serve all: delete it, or choose '
            'another VO for it, first.', name USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER no_site_serves_all_by_a_deletion AFTER DELETE ON resources_site_vos
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION wms_none_serves_all_by_a_deletion('resources_site', 'site_id');
CREATE CONSTRAINT TRIGGER no_definition_holds_for_all_by_a_deletion AFTER DELETE ON resources_requirementdefinition_vos
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION wms_none_serves_all_by_a_deletion('resources_requirementdefinition', 'requirementdefinition_id');
