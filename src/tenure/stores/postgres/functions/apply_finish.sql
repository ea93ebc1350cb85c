-- apply_finish: Apply a Finish transition to the locked job `_job`: end it, write attributes and lookups to its run,
-- propagate the end, then enqueue its children and its successor. Raises what `enqueue_jobs` raises; TN004 if the run
-- lacks an attribute that the successor needs. The caller rolls back to its savepoint then.
--
-- `_finish`: JSON as `finish_json` in settling.py writes it. Plain children go through `enqueue_new`, or through
-- `enqueue_alike` if there are `ids`; children of layout 1 come as `children`. `_settled`: whether the holder of the
-- lease ends the job.
CREATE OR REPLACE FUNCTION apply_finish(
    _now float8, _job live, _state text, _result text, _error text, _settled boolean, _finish json, _payloads bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _brings record;
    _first integer;
    _plain integer;
    _missing text;
    _ended bigint[];
BEGIN
    -- Parsed once, because the JSON may be long and every operator -> would parse it again.
    SELECT *, coalesce(jobs, children) AS coming INTO _brings FROM json_to_record(_finish) AS (
        state text, first integer, alike json, ids text[], plain json, jobs json, children json, awaits text[], hands boolean,
        needs text[], attributes json, lookups json
    );
    _state := coalesce(_state, _brings.state);
    IF _settled AND _state <> 'broken' THEN  -- a broken job never ran
        PERFORM count_total('processed', _job.queue, _job.worker);
    END IF;
    IF _job.run IS NOT NULL THEN
        PERFORM write_attributes(ARRAY[_job.run], array_agg(1), array_agg(key), array_agg(value)) FROM json_each_text(_brings.attributes);
        PERFORM write_lookups(ARRAY[_job.run], array_agg(1), array_agg(key), array_agg(one.value))
        FROM json_each(_brings.lookups) AS given LEFT JOIN LATERAL json_array_elements_text(given.value) AS one ON true;
        SELECT name INTO _missing FROM unnest(_brings.needs) WITH ORDINALITY AS need (name, at)
        WHERE NOT EXISTS (SELECT FROM attributes a WHERE a.run = _job.run AND a.name = need.name) ORDER BY at LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'missing' USING ERRCODE = 'TN004', DETAIL = json_build_array(_brings.coming -> -1 ->> 'task', _missing);
        END IF;
    END IF;
    PERFORM record_end(
        _now, _job.n, _state, _result, _error, CASE WHEN _settled THEN _job.worker END, _settled,
        CASE WHEN _brings.hands THEN _brings.coming -> -1 ->> 'id' END
    );
    _ended := ARRAY[_job.n] || propagate_end(_now, _job.n);
    -- After the end, because a child may take the key that was just freed; before the removal, because it may wait for
    -- its parent.
    _first := _brings.first;
    IF _brings.alike IS NOT NULL THEN
        _plain := cardinality(_brings.ids);
        PERFORM enqueue_alike(_now, _brings.alike, _brings.ids, _payloads[_first : _first + _plain - 1]);
        _first := _first + _plain;
    ELSIF _brings.plain IS NOT NULL THEN
        _plain := json_array_length(_brings.plain);
        PERFORM enqueue_new(_now, _brings.plain, _payloads[_first : _first + _plain - 1]);
        _first := _first + _plain;
    END IF;
    IF _brings.awaits IS NOT NULL THEN
        PERFORM enqueue_blocked_successor(
            _now, _job, _brings.coming, _payloads[_first : _first],
            CASE WHEN cardinality(_brings.awaits) > 0 THEN _brings.awaits ELSE _brings.ids END
        );
    ELSIF _brings.coming IS NOT NULL THEN
        PERFORM FROM enqueue_jobs(
            _now, _brings.coming, _payloads[_first : _first + json_array_length(_brings.coming) - 1], true
        );
    END IF;
    PERFORM remove_unkept(_now, _ended);
END
$$;
