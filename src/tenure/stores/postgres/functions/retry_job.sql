-- retry_job: Start the final job that `_id` means again. Returns a verdict as `retry` does. The caller has locked the
-- job and its edges, so no edge closes meanwhile.
CREATE OR REPLACE FUNCTION retry_job(_now float8, _id text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _job jobs;
    _kept ended;
    _each jobs;
    _taken bigint[] := '{}';
    _other text;
    _open integer;
BEGIN
    SELECT j.* INTO _job FROM resolve_ids(ARRAY[_id]) m JOIN jobs j ON j.n = ANY (ARRAY[m.n]);
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    SELECT * INTO _kept FROM ended WHERE n = _job.n;
    IF NOT FOUND THEN
        RETURN (SELECT json_build_array(state, 'not final') FROM live WHERE n = _job.n);
    ELSIF _kept.successor IS NOT NULL THEN
        RETURN json_build_array(_kept.state, 'handed over', _kept.successor);
    END IF;
    SELECT d.blocker INTO _other FROM edges d
    WHERE d.dependent = _job.n AND d.open AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = d.blocker)
    ORDER BY d.position LIMIT 1;
    IF FOUND THEN
        RETURN json_build_array(_kept.state, 'gone', _other);
    END IF;
    -- Its own key, and the key of its run.
    FOR _each IN
        SELECT * FROM jobs WHERE n IN (_job.n, _job.run) AND unique_key IS NOT NULL AND coalesce(unique_until > _now, true) ORDER BY n DESC
    LOOP
        _other := claim_key(_now, _each.task, _each.unique_key, _each.id, _each.unique_until);
        IF _other IS NOT NULL THEN
            PERFORM free_keys(_taken, true);
            RETURN json_build_array(_kept.state, 'unique', _other);
        END IF;
        _taken := _taken || _each.n;
    END LOOP;
    SELECT count(*) INTO _open FROM edges WHERE dependent = _job.n AND open;
    DELETE FROM ended WHERE n = _job.n;
    UPDATE ended SET waited = false WHERE n = _job.run AND waited;
    INSERT INTO live (
        n, queue, task, state, priority, seq, fence, lease, keep, keyed, blocked_by, worker, started_at, error, run,
        ready_at, attempts
    ) VALUES (
        _job.n, _job.queue, _job.task, 'blocked', _job.priority, _kept.seq, _kept.fence, _job.lease, _job.keep,
        EXISTS (SELECT FROM jobs WHERE n IN (_job.n, _job.run) AND unique_key IS NOT NULL), _open, _kept.worker, _kept.started_at,
        _kept.error, _job.run, _kept.ready_at,
        -- Add the successful attempt. A job without a token was completed by an operator, which is no attempt; an attempt
        -- that left output is recorded already.
        CASE WHEN _kept.state <> 'succeeded' OR _kept.nonce IS NULL
                  OR (_kept.attempts[cardinality(_kept.attempts)]::json ->> 1)::integer = _kept.fence THEN _kept.attempts ELSE add_attempt(
            _kept.attempts, _kept.attempt, _kept.fence, _kept.started_at, _kept.ended_at, _kept.worker, 'succeeded', NULL
        ) END
    );
    PERFORM count_move(_job.queue, _kept.state, 'blocked');
    IF _open = 0 THEN
        PERFORM join_line(_now, _job.n);
    END IF;
    RETURN 'ok';
END
$$;
