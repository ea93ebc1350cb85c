-- end_with: a job ends, with all that follows; what its step writes is written to its run, and its children and its successor come to
-- exist: those that are plain as by `enqueue_new`. By its holder, if it is _settled. Raises as these do, or TN004 for an attribute that the successor needs.
CREATE OR REPLACE FUNCTION end_with(
    _now float8, _job live, _state text, _result text, _error text, _settled boolean, _step json, _payloads bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _jobs json := coalesce(_step -> 'jobs', _step -> 'children');
    _first integer := (_step ->> 'first')::integer;
    _successor text := CASE WHEN (_step ->> 'hands')::boolean THEN _jobs -> -1 ->> 'id' END;
    _plain integer;
    _missing text;
    _ended bigint[];
BEGIN
    IF _settled AND _state <> 'broken' THEN  -- a broken job never ran
        PERFORM happened('processed', _job.queue, _job.worker);
    END IF;
    IF _job.run IS NOT NULL THEN
        PERFORM write_attributes(ARRAY[_job.run], array_agg(1), array_agg(key), array_agg(value)) FROM json_each_text(_step -> 'attributes');
        PERFORM write_lookups(ARRAY[_job.run], array_agg(1), array_agg(key), array_agg(one.value))
        FROM json_each(_step -> 'lookups') AS given LEFT JOIN LATERAL json_array_elements_text(given.value) AS one ON true;
        SELECT name INTO _missing FROM json_array_elements_text(_step -> 'needs') WITH ORDINALITY AS need (name, at)
        WHERE NOT EXISTS (SELECT FROM attributes a WHERE a.run = _job.run AND a.name = need.name) ORDER BY at LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'missing' USING ERRCODE = 'TN004', DETAIL = json_build_array(_jobs -> -1 ->> 'task', _missing);
        END IF;
    END IF;
    PERFORM conclude(
        _now, _job.n, _state, _result, _error, CASE WHEN _settled THEN _job.worker END, _settled, _successor
    );
    _ended := ARRAY[_job.n] || follow_end(_now, _job.n);
    -- Between the end and the drop: a child may take the key that has just come free, or wait for its parent.
    IF _step -> 'plain' IS NOT NULL THEN
        _plain := json_array_length(_step -> 'plain');
        PERFORM enqueue_new(_now, _step -> 'plain', _payloads[_first : _first + _plain - 1]);
        _first := _first + _plain;
    END IF;
    IF _jobs IS NOT NULL THEN
        PERFORM FROM enqueue_jobs(
            _now, _jobs, _payloads[_first : _first + json_array_length(_jobs) - 1], true
        );
    END IF;
    PERFORM drop_unkept(_now, _ended);
END
$$;
