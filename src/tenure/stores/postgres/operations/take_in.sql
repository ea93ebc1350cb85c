-- take_in: Delete the inbox entries with these numbers and enqueue the jobs made of them. Returns how many entries were
-- still there; the others are left out. A job with an error in `_errors` is broken.
--
-- Race: two callers that take the same entry. The second waits for the first and finds it gone.
CREATE OR REPLACE FUNCTION take_in(_now float8, _entries bigint[], _jobs json, _payloads bytea[], _errors text[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    _taken bigint[];
    _n bigint;
    _known text[];
    _consequences json;
BEGIN
    _now := clock(_now);
    -- Waits for a caller that is taking some of them.
    PERFORM FROM inbox WHERE n = ANY (_entries) ORDER BY n FOR UPDATE;
    WITH gone AS (DELETE FROM inbox WHERE n = ANY (_entries) RETURNING n)
    SELECT array_agg(array_position(_entries, n) ORDER BY n) INTO _taken FROM gone;
    IF _taken IS NULL THEN
        RETURN 0;
    END IF;
    IF cardinality(_taken) < cardinality(_entries) THEN
        _jobs := (SELECT json_agg(_jobs -> (at - 1)::integer ORDER BY at) FROM unnest(_taken) AS at);
        _payloads := ARRAY(SELECT _payloads[at] FROM unnest(_taken) AS at ORDER BY at);
        _errors := ARRAY(SELECT _errors[at] FROM unnest(_taken) AS at ORDER BY at);
    END IF;
    _known := ARRAY(SELECT j.id FROM new_jobs(_jobs, _payloads) AS new JOIN jobs j ON j.id = ANY (ARRAY[new.id]));
    SELECT json_agg(json_build_array(
        CASE WHEN _errors[enqueued.at] IS NULL THEN 'enqueued' ELSE 'broken' END, enqueued.id, new ->> 'task', new ->> 'queue'
    ) ORDER BY enqueued.at) INTO _consequences
    FROM (
        SELECT DISTINCT ON (id) at, id FROM enqueue_jobs(_now, _jobs, _payloads, true) AS enqueued
        WHERE NOT duplicate AND NOT id = ANY (_known) ORDER BY id, at
    ) AS enqueued, LATERAL (SELECT _jobs -> (enqueued.at - 1)) AS entry (new);
    IF _consequences IS NOT NULL THEN
        PERFORM report_json(_consequences);
    END IF;
    FOR _at IN 1 .. cardinality(_errors) LOOP
        IF _errors[_at] IS NOT NULL THEN
            SELECT l.n INTO _n FROM jobs j JOIN live l ON l.n = ANY (ARRAY[j.n]) WHERE j.id = _jobs -> (_at - 1) ->> 'id';
            PERFORM end_job(_now, _n, 'broken', NULL, _errors[_at]);
        END IF;
    END LOOP;
    RETURN cardinality(_taken);
END
$$;
