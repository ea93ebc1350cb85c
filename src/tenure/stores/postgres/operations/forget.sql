-- forget: Remove each worker that has been silent for its number of seconds and holds no job. Returns the ids that were
-- removed, in order.
CREATE OR REPLACE FUNCTION forget(_now float8, _ids text[], _silences float8[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _gone text[] := '{}';
BEGIN
    _now := clock(_now);
    FOR _at IN 1 .. cardinality(_ids) LOOP
        DELETE FROM workers WHERE id = _ids[_at] AND abs(_now - beat) >= _silences[_at] AND (
            SELECT true FROM live WHERE state = 'running' AND worker = _ids[_at] LIMIT 1
        ) IS NULL;
        IF FOUND THEN
            _gone := _gone || _ids[_at];
        END IF;
    END LOOP;
    RETURN _gone;
END
$$;
