-- remove: take jobs out of everything that knows them. Edges of others to them stay open: there is nothing to close them with.
CREATE OR REPLACE FUNCTION remove(_ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM edges WHERE dependent = ANY (_ns);
    PERFORM tell_waiters(_ns, 'deleted');
    PERFORM free_keys(_ns, true);
    WITH gone AS (
        DELETE FROM live WHERE n = ANY (_ns) RETURNING queue, place(state, run_at) AS place
    ), forgotten AS (
        DELETE FROM ended WHERE n = ANY (_ns) RETURNING queue, state
    )
    INSERT INTO tallies (queue, what, number)
    SELECT queue, place, -count(*) FROM (TABLE gone UNION ALL TABLE forgotten) AS each GROUP BY queue, place;
    DELETE FROM jobs WHERE n = ANY (_ns);
END
$$;
