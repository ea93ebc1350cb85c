-- put_schedules: Create, replace or delete each schedule that has the version which its put names; 0: it must not
-- exist. Returns whether each was written. Settings of NULL delete; `_seen`: whether to set `seen_at` to now.
--
-- Race: workers that start together put the same schedules. They are written in the order of their names, and those of
-- one name in the order of the call, so that two calls never wait for each other.
CREATE OR REPLACE FUNCTION put_schedules(
    _now float8, _names text[], _versions bigint[], _settings text[], _nexts float8[], _active boolean[], _seen boolean[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    _put record;
    _written boolean[] := '{}';
BEGIN
    _now := clock(_now);
    FOR _put IN
        SELECT * FROM unnest(_names, _versions, _settings, _nexts, _active, _seen) WITH ORDINALITY
            AS each (name, version, settings, next, active, seen, at)
        ORDER BY name COLLATE "C", at
    LOOP
        IF _put.version = 0 AND _put.settings IS NOT NULL THEN
            INSERT INTO schedules (name, settings, version, next, active, seen_at, history)
            VALUES (_put.name, _put.settings, 1, _put.next, _put.active, _now, '{}') ON CONFLICT DO NOTHING;
            _written[_put.at] := FOUND;
        ELSIF _put.version = 0 THEN
            _written[_put.at] := NOT EXISTS (SELECT FROM schedules WHERE name = _put.name);
        ELSIF _put.settings IS NOT NULL THEN
            UPDATE schedules SET
                settings = _put.settings, version = version + 1, next = _put.next, active = _put.active,
                seen_at = CASE WHEN _put.seen THEN _now ELSE seen_at END
            WHERE name = _put.name AND version = _put.version;
            _written[_put.at] := FOUND;
        ELSE
            DELETE FROM schedules WHERE name = _put.name AND version = _put.version;
            _written[_put.at] := FOUND;
        END IF;
    END LOOP;
    RETURN _written;
END
$$;
