-- get_with_attempts: The records of the jobs with these ids, each with its past attempts, in no order.
CREATE OR REPLACE FUNCTION get_with_attempts(_ids text[]) RETURNS TABLE (job records, attempts text[]) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT r, coalesce(l.attempts, e.attempts)
    FROM records r LEFT JOIN live l ON l.n = ANY (ARRAY[r.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[r.n])
    WHERE r.id = ANY (_ids);
END
$$;
