-- end_details: How the final job `_n` has ended, and the ids by which dependents wait for that end.
CREATE OR REPLACE FUNCTION end_details(_n bigint) RETURNS TABLE (ends_as text[], state text, result text, error text)
LANGUAGE sql STABLE AS $$
    SELECT ARRAY(SELECT s.id FROM jobs s WHERE s.n = ANY (ended_numbers(j.n, j.run, e.successor)) ORDER BY s.n DESC),
           e.state, e.result, e.error
    FROM jobs j JOIN ended e ON e.n = ANY (ARRAY[j.n]) WHERE j.n = _n
$$;
