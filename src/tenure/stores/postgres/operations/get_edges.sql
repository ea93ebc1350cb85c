-- get_edges: What a job was told to wait for, in the order of its `after`, at most `_limit`.
CREATE OR REPLACE FUNCTION get_edges(_id text, _limit integer) RETURNS TABLE (blocker text, open boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT d.blocker, d.open FROM jobs j JOIN edges d ON d.dependent = ANY (ARRAY[j.n])
    WHERE j.id = _id ORDER BY d.position LIMIT _limit;
END
$$;
