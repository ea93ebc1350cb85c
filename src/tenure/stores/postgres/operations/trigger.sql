-- trigger: Put each scheduled job at the back of the line now. Returns a verdict for each: ok, not_found, or the state
-- that the job is in.
CREATE OR REPLACE FUNCTION trigger(_now float8, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _verdicts text[] := '{}';
    _job record;
BEGIN
    _now := clock(_now);
    PERFORM lock_jobs(_ids);
    FOR _at IN 1 .. cardinality(_ids) LOOP
        SELECT r.n, r.state, r.run_at INTO _job FROM resolve_ids(ARRAY[_ids[_at]]) m JOIN records r ON r.n = ANY (ARRAY[m.n]);
        IF NOT FOUND THEN
            _verdicts[_at] := 'not_found';
        ELSIF _job.state <> 'waiting' OR _job.run_at IS NULL THEN
            _verdicts[_at] := _job.state;
        ELSE
            PERFORM count_move(queue, 'scheduled', 'waiting') FROM live WHERE n = _job.n;
            UPDATE live SET run_at = NULL, ready_at = _now, seq = nextval('places') WHERE n = _job.n;
            PERFORM wake_workers(queue, 1) FROM live WHERE n = _job.n;
            _verdicts[_at] := 'ok';
        END IF;
    END LOOP;
    RETURN _verdicts;
END
$$;
