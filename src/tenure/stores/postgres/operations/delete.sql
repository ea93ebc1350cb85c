-- delete: Delete these jobs, all or none. Returns the ids that were deleted, in the order of `_ids`; after a step the
-- other steps of its run. With `_cascade` also the blocked jobs that wait for them, and so on. Without it, raises
-- TN003, with the job and those dependents as JSON, if a blocked job that is not in `_ids` waits for one.
CREATE OR REPLACE FUNCTION delete(_now float8, _ids text[], _cascade boolean) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _going text[];
    _others text[];
    _at integer := 0;
BEGIN
    _now := clock(_now);
    _going := lock_with_runs(_ids);
    WHILE _at < cardinality(_going) LOOP
        _at := _at + 1;
        _others := ARRAY(
            SELECT DISTINCT j.id FROM edges d JOIN live l ON l.n = ANY (ARRAY[d.dependent]) JOIN jobs j ON j.n = ANY (ARRAY[d.dependent])
            WHERE d.blocker = _going[_at] AND d.open AND l.state = 'blocked' AND NOT j.id = ANY (_going)
        );
        CONTINUE WHEN cardinality(_others) = 0;
        IF NOT _cascade THEN
            RAISE EXCEPTION 'waited for' USING ERRCODE = 'TN003', DETAIL = json_build_array(_going[_at], _others);
        END IF;
        _going := _going || lock_with_runs(_others);
    END LOOP;
    PERFORM remove_and_notify(_now, ARRAY(SELECT n FROM jobs WHERE id = ANY (_going)));
    RETURN _going;
END
$$;
