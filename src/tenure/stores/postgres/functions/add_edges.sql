-- add_edges: Store the edges from the new job `_n` to the ids in the JSON array `_after`, and close those whose blocker
-- has ended already. Returns `_n`, and the dependents of `_n`, that failed because of such a blocker.
--
-- The caller holds the blockers by `lock_jobs_shared`, so none ends in between. A run whose current step has a
-- successor has not ended, although that successor may be stored only later in the same transaction.
CREATE OR REPLACE FUNCTION add_edges(_now float8, _n bigint, _after jsonb) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    _failed bigint[] := '{}';
    _blocker record;
BEGIN
    INSERT INTO edges (dependent, position, blocker)
    SELECT _n, position, id FROM jsonb_array_elements_text(_after) WITH ORDINALITY AS each (id, position);
    FOR _blocker IN
        SELECT m.id, e.state, e.result, e.error
        FROM (SELECT blocker, min(position) AS position FROM edges WHERE dependent = _n GROUP BY blocker) AS each,
             LATERAL resolve_ids(ARRAY[each.blocker]) m, LATERAL (SELECT * FROM ended e WHERE e.n = m.n LIMIT 1) AS e
        WHERE e.successor IS NULL OR (SELECT j.run <> j.n FROM jobs j WHERE j.n = m.own)
        ORDER BY each.position
    LOOP
        _failed := _failed || update_dependents(_now, ARRAY[_blocker.id], _blocker.state, _blocker.result, _blocker.error, _n);
    END LOOP;
    RETURN _failed;
END
$$;
