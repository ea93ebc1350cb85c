-- release: Take each running job from its holder, notify the holder, and put the job back in its position; the attempt
-- does not count. Returns a verdict for each: ok, not_found, or the state that the job is in.
CREATE OR REPLACE FUNCTION release(_now float8, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _verdicts text[] := '{}';
    _job record;
BEGIN
    PERFORM lock_jobs(_ids);
    FOR _at IN 1 .. cardinality(_ids) LOOP
        SELECT r.n, r.state, r.worker INTO _job FROM resolve_ids(ARRAY[_ids[_at]]) m JOIN records r ON r.n = ANY (ARRAY[m.n]);
        IF NOT FOUND THEN
            _verdicts[_at] := 'not_found';
        ELSIF _job.state <> 'running' THEN
            _verdicts[_at] := _job.state;
        ELSE
            PERFORM notify_holder(_job.n, _job.worker, 'taken');
            UPDATE live SET
                state = 'waiting', run_at = NULL, attempt = attempt - 1, nonce = NULL, lease_until = NULL, progress = NULL
            WHERE n = _job.n;
            PERFORM count_move(queue, 'running', 'waiting'), wake_workers(queue, 1) FROM live WHERE n = _job.n;
            _verdicts[_at] := 'ok';
        END IF;
    END LOOP;
    RETURN _verdicts;
END
$$;
