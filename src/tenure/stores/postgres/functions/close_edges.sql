-- close_edges: these jobs have succeeded with these results, in this order: whoever waits for them, by any of these ids, has one thing
-- less to wait for. What `update_dependents` does for one, for many at once. Locks as it does: by changing them in that order. Ids of one _place
-- are those of one end (of a step, and of the run that ends with it): who waits for any of them comes in the order of its seq.
-- (`blocked_by > 0` is what `state = 'blocked'` means here; said so, it would let the planner go through all that are.)
CREATE OR REPLACE FUNCTION close_edges(_now float8, _blockers text[], _results text[], _places integer[] DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _free bigint[];
    _n bigint;
BEGIN
    WITH closed AS (
        UPDATE edges d SET open = false, result = ended.result
        FROM (
            SELECT e.dependent, e.position, over.result, coalesce(over.place, over.at) AS at
            FROM unnest(_blockers, _results, _places) WITH ORDINALITY AS over (id, result, place, at) JOIN edges e ON e.blocker = ANY (ARRAY[over.id])
            WHERE e.open ORDER BY e.dependent, e.position
        ) AS ended
        WHERE d.dependent = ANY (ARRAY[ended.dependent]) AND d.position = ANY (ARRAY[ended.position]) AND d.open
        RETURNING d.dependent, ended.at
    ), counted AS MATERIALIZED (
        SELECT dependent, count(*) AS number, max(at) AS last FROM closed GROUP BY dependent ORDER BY dependent
    ), less AS (
        UPDATE live l SET blocked_by = l.blocked_by - counted.number FROM counted
        WHERE l.n = ANY (ARRAY[counted.dependent]) AND l.blocked_by > 0
        RETURNING l.n, l.blocked_by, l.seq, counted.last
    )
    SELECT array_agg(n ORDER BY last, seq) FILTER (WHERE blocked_by = 0) INTO _free FROM less;
    IF _free IS NOT NULL THEN
        FOREACH _n IN ARRAY _free LOOP
            PERFORM join_line(_now, _n);
        END LOOP;
        PERFORM report_changes(array_fill('unblocked'::text, ARRAY[cardinality(_free)]), _free);
    END IF;
END
$$;
