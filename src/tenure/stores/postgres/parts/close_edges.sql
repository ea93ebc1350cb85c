-- close_edges: these jobs have succeeded with these results, in this order: whoever waits for them, by any of these ids, has one thing
-- less to wait for. What `follow` does for one, for many at once. Locks as it does.
CREATE OR REPLACE FUNCTION close_edges(_now float8, _blockers text[], _results text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _free bigint[];
    _n bigint;
BEGIN
    PERFORM FROM edges WHERE blocker = ANY (_blockers) AND open ORDER BY dependent, position FOR UPDATE;
    PERFORM FROM live WHERE n IN (SELECT dependent FROM edges WHERE blocker = ANY (_blockers) AND open) ORDER BY n FOR UPDATE;
    WITH closed AS (
        UPDATE edges d SET open = false, result = ended.result
        FROM unnest(_blockers, _results) WITH ORDINALITY AS ended (id, result, at)
        WHERE d.blocker = ANY (ARRAY[ended.id]) AND d.open
        RETURNING d.dependent, ended.at
    ), counted AS MATERIALIZED (
        SELECT dependent, count(*) AS number, max(at) AS last FROM closed GROUP BY dependent
    ), less AS (
        UPDATE live l SET blocked_by = l.blocked_by - counted.number FROM counted
        WHERE l.n = ANY (ARRAY[counted.dependent]) AND l.state = 'blocked'
        RETURNING l.n, l.blocked_by, l.seq, counted.last
    )
    SELECT array_agg(n ORDER BY last, seq) FILTER (WHERE blocked_by = 0) INTO _free FROM less;
    FOREACH _n IN ARRAY coalesce(_free, '{}') LOOP
        PERFORM join_line(_now, _n);
    END LOOP;
END
$$;
