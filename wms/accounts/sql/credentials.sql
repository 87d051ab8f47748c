-- Tokens and one-time links end with the password and with a suspension, and sessions with a suspension, in the same
-- transaction, whatever changes the row: a page, a command, the configuration file, SQL.

CREATE FUNCTION wms_credentials_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE accounts_apitoken SET revoked_at = now() WHERE user_id = NEW.id AND revoked_at IS NULL;
    DELETE FROM accounts_passwordlink WHERE user_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER credentials_end AFTER UPDATE OF password, is_active ON accounts_user FOR EACH ROW
    WHEN (OLD.password IS DISTINCT FROM NEW.password OR (OLD.is_active AND NOT NEW.is_active))
    EXECUTE FUNCTION wms_credentials_end();

-- Sessions hold this number. Whoever saves a row that was read before writes an old number, which does not count.
CREATE FUNCTION wms_suspensions_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.suspensions := OLD.suspensions + (OLD.is_active AND NOT NEW.is_active)::int;
    RETURN NEW;
END
$$;
CREATE TRIGGER suspensions_count BEFORE UPDATE ON accounts_user FOR EACH ROW
    WHEN (OLD.suspensions <> NEW.suspensions OR (OLD.is_active AND NOT NEW.is_active))
    EXECUTE FUNCTION wms_suspensions_count();
