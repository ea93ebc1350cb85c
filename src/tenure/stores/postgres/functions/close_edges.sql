-- close_edges: Jobs have succeeded: close the edges to their ids and put the dependents that have no open edge left in
-- line. Does for many blockers at once what `update_dependents` does for one, and locks in the same order, by its
-- updates.
--
-- `_blockers` and `_results`: ids and results in the order of the ends. `_places`: equal numbers mark ids of one end
-- (those of a last step and of its run); dependents of one end join the line in the order of their seq.
--
-- (`blocked_by > 0` means the same as `state = 'blocked'` here, but the latter would let the planner scan all blocked
-- jobs.)
CREATE OR REPLACE FUNCTION close_edges(_now float8, _blockers text[], _results text[], _places integer[] DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _free bigint[];
    _n bigint;
BEGIN
    WITH closed AS (
        UPDATE edges d SET open = false, result = ended.result
        FROM (
            SELECT e.dependent, e.position, over.result, coalesce(over.place, over.at) AS at
            FROM unnest(_blockers, _results, _places) WITH ORDINALITY AS over (id, result, place, at)
            JOIN edges e ON e.blocker = ANY (ARRAY[over.id])
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
