-- note_actions: Enter actions in the audit, each a JSON text, and delete all but the latest `_kept` and those that are
-- `_kept_for` seconds old.
CREATE OR REPLACE FUNCTION note_actions(_now float8, _actions text[], _kept integer, _kept_for float8) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    _now := clock(_now);
    INSERT INTO actions (at, action)
    SELECT _now, action FROM unnest(_actions) WITH ORDINALITY AS each (action, at) ORDER BY each.at;
    DELETE FROM actions WHERE n <= (SELECT n FROM actions ORDER BY n DESC OFFSET _kept LIMIT 1);
    -- Reads the oldest ones, up to the first that is kept.
    DELETE FROM actions WHERE n < (SELECT n FROM actions WHERE at > _now - _kept_for ORDER BY n LIMIT 1);
END
$$;
