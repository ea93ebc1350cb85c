-- prune_states: Remove up to `_limit` jobs of a queue in two states that share one retention: first those that ended
-- `_age` seconds ago, then the oldest beyond `_most`. Returns how many. `_number`: how many there are in these states.
-- Jobs with their own retention do not count, nor do steps that have handed over.
CREATE OR REPLACE FUNCTION prune_states(
    _now float8, _queue text, _one text, _other text, _number bigint, _age float8, _most float8, _limit integer
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _pruned integer;
    _surplus bigint;
BEGIN
    _pruned := remove_unclaimed(_now, ARRAY(
        SELECT n FROM unclaimed(_now)
        WHERE queue = _queue AND state IN (_one, _other) AND ended_at <= _now - _age AND keep_until IS NULL AND successor IS NULL
        LIMIT _limit
    ));
    _surplus := _number - _pruned - _most;
    IF _surplus <= 0 OR _pruned >= _limit THEN
        RETURN _pruned;
    END IF;
    _surplus := _surplus - (
        -- `queue || ''` makes the planner use the index on keep_until, which has few rows.
        SELECT count(*) FROM ended WHERE keep_until IS NOT NULL AND queue || '' = _queue AND state IN (_one, _other)
    );
    IF _surplus <= 0 THEN
        RETURN _pruned;
    END IF;
    RETURN _pruned + remove_unclaimed(_now, ARRAY(
        SELECT n FROM (
            SELECT n FROM (
                (
                    SELECT n, ended_at FROM ended WHERE queue = _queue AND state = _one AND keep_until IS NULL AND successor IS NULL
                    ORDER BY ended_at, n
                ) UNION ALL (
                    SELECT n, ended_at FROM ended WHERE queue = _queue AND state = _other AND keep_until IS NULL AND successor IS NULL
                    ORDER BY ended_at, n
                )
            ) AS both_states ORDER BY ended_at, n LIMIT _surplus
        ) AS oldest
        WHERE (SELECT true FROM unclaimed(_now) u WHERE u.n = oldest.n) LIMIT _limit - _pruned
    ));
END
$$;
