-- follow_end: tell those who wait for a job, which is final by now, how it has ended; who has ended by that.
CREATE OR REPLACE FUNCTION follow_end(_now float8, _n bigint) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    _blocker record;
BEGIN
    SELECT j.id, e.state, e.result, e.error INTO _blocker FROM jobs j JOIN ended e ON e.n = j.n WHERE j.n = _n;
    RETURN follow(_now, _blocker.id, _blocker.state, _blocker.result, _blocker.error);
END
$$;
