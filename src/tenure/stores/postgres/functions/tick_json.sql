-- tick_json: What became of a tick, as JSON that schedules.py reads as a `TickRecord`.
CREATE OR REPLACE FUNCTION tick_json(_now float8, _tick float8, _end text, _id text, _replaced text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object('tick', _tick, 'end', _end, 'at', _now, 'job_id', _id, 'replaced', _replaced))::text
$$;
