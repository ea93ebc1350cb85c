-- revive: a final job begins anew; the verdict, as `retry` gives it. The caller has locked its edges, so that none closes now.
CREATE OR REPLACE FUNCTION revive(_now float8, _id text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _job jobs;
    _kept ended;
    _other text;
    _open integer;
BEGIN
    SELECT * INTO _job FROM jobs WHERE id = _id;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    SELECT * INTO _kept FROM ended WHERE n = _job.n;
    IF NOT FOUND THEN
        RETURN (SELECT json_build_array(state, 'not final') FROM live WHERE n = _job.n);
    END IF;
    SELECT d.blocker INTO _other FROM edges d
    WHERE d.dependent = _job.n AND d.open AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = d.blocker)
    ORDER BY d.position LIMIT 1;
    IF FOUND THEN
        RETURN json_build_array(_kept.state, 'gone', _other);
    END IF;
    IF _job.unique_key IS NOT NULL AND coalesce(_job.unique_until > _now, true) THEN
        _other := claim_key(_now, _job.task, _job.unique_key, _job.id, _job.unique_until);
        IF _other IS NOT NULL THEN
            RETURN json_build_array(_kept.state, 'unique', _other);
        END IF;
    END IF;
    SELECT count(*) INTO _open FROM edges WHERE dependent = _job.n AND open;
    DELETE FROM ended WHERE n = _job.n;
    INSERT INTO live (n, queue, task, state, priority, seq, fence, lease, keep, keyed, blocked_by, worker, started_at, error)
    VALUES (
        _job.n, _job.queue, _job.task, 'blocked', _job.priority, _kept.seq, _kept.fence, _job.lease, _job.keep,
        _job.unique_key IS NOT NULL, _open, _kept.worker, _kept.started_at, _kept.error
    );
    PERFORM moved(_job.queue, _kept.state, 'blocked');
    IF _open = 0 THEN
        PERFORM join_line(_now, _job.n);
    END IF;
    RETURN 'ok';
END
$$;
