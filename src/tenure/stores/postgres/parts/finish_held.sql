-- finish_held: a held job ends, with all that follows, and its children come to exist. Raises as `enqueue_jobs` does.
CREATE OR REPLACE FUNCTION finish_held(
    _now float8, _job live, _state text, _result text, _error text, _step json, _payloads bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _ended bigint[];
    _first integer := (_step ->> 'first')::integer;
BEGIN
    IF _state <> 'broken' THEN  -- a broken job never ran
        PERFORM happened('processed', _job.queue, _job.worker);
    END IF;
    PERFORM conclude(_now, _job.n, _state, _result, _error, _job.worker, true);
    _ended := ARRAY[_job.n] || follow_end(_now, _job.n);
    -- Between the end and the drop: a child may take the key that has just come free, or wait for its parent.
    IF _first IS NOT NULL THEN
        PERFORM FROM enqueue_jobs(
            _now, _step -> 'children', _payloads[_first : _first + json_array_length(_step -> 'children') - 1], true
        );
    END IF;
    PERFORM drop_unkept(_now, _ended);
END
$$;
