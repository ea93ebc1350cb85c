-- describe_runs: The runs with these numbers, each with its current step, in this order. Runs that have been deleted
-- meanwhile are left out.
CREATE OR REPLACE FUNCTION describe_runs(_runs bigint[]) RETURNS SETOF run_found LANGUAGE sql STABLE ROWS 50 AS $$
    SELECT j.n, j.id, j.flow, j.created_at, s.n, CASE WHEN e.state = 'succeeded' THEN s.queue ELSE (
        SELECT b.queue FROM jobs b WHERE b.run = j.n AND b.n < s.n ORDER BY b.n DESC LIMIT 1
    ) END, each.at::integer, NULL::bigint
    FROM unnest(_runs) WITH ORDINALITY AS each (n, at) JOIN jobs j ON j.n = ANY (ARRAY[each.n]), LATERAL (
        SELECT l.n, l.queue FROM jobs l WHERE l.run = j.n ORDER BY l.n DESC LIMIT 1
    ) AS s LEFT JOIN ended e ON e.n = ANY (ARRAY[s.n])
    ORDER BY each.at
$$;
