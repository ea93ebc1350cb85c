-- end_by_operator: End each job in whatever state it is, as `_state`, and notify its holder, whose token is void from
-- then on. Returns a verdict for each id: ok, not_found, or the final state that the job is in. `_kind`: the
-- announcement to the holder.
CREATE OR REPLACE FUNCTION end_by_operator(_now float8, _ids text[], _state text, _kind text, _result text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    _verdicts text[] := '{}';
    _job record;
BEGIN
    PERFORM lock_jobs(_ids);
    FOR _at IN 1 .. cardinality(_ids) LOOP
        SELECT r.n, r.state, r.worker, r.ended_at INTO _job
        FROM resolve_ids(ARRAY[_ids[_at]]) m JOIN records r ON r.n = ANY (ARRAY[m.n]);
        IF NOT FOUND THEN
            _verdicts[_at] := 'not_found';
        ELSIF _job.ended_at IS NOT NULL THEN
            _verdicts[_at] := _job.state;
        ELSE
            IF _job.state = 'running' THEN
                PERFORM notify_holder(_job.n, _job.worker, _kind);
            END IF;
            PERFORM end_job(_now, _job.n, _state, _result, NULL);
            _verdicts[_at] := 'ok';
        END IF;
    END LOOP;
    RETURN _verdicts;
END
$$;
