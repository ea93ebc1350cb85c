-- get_blockers: Ids of the jobs that a blocked job still waits for, in the order of its `after`, at most `_limit`.
CREATE OR REPLACE FUNCTION get_blockers(_id text, _limit integer) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT d.blocker FROM jobs j JOIN live l ON l.n = ANY (ARRAY[j.n]) JOIN edges d ON d.dependent = ANY (ARRAY[j.n])
    WHERE j.id = _id AND l.state = 'blocked' AND d.open ORDER BY d.position LIMIT _limit;
END
$$;
