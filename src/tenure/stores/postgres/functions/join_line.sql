-- join_line: Put a job at the back of its line; or let it wait for its time, if that is yet to come. `_new`: the job
-- keeps the position that it has just been given, and was due when it was created. The caller has locked it.
CREATE OR REPLACE FUNCTION join_line(_now float8, _n bigint, _new boolean DEFAULT false) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _job live;
    _due boolean;
BEGIN
    SELECT * INTO _job FROM live WHERE n = _n;
    _due := _job.run_at IS NULL OR _job.run_at <= _now;
    UPDATE live SET
        state = 'waiting', blocked_by = 0, parked_until = NULL, run_at = CASE WHEN NOT _due THEN run_at END,
        seq = CASE WHEN _due AND NOT _new THEN nextval('places') ELSE seq END,
        ready_at = CASE WHEN _due AND NOT _new THEN _now ELSE ready_at END
    WHERE n = _n;
    PERFORM count_move(_job.queue, counter_name(_job.state, _job.run_at), CASE WHEN _due THEN 'waiting' ELSE 'scheduled' END);
    PERFORM wake_workers(_job.queue, 1);
END
$$;
