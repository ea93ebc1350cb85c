-- watch_notes: `watch_events` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION watch_notes(_channel text, _seconds float8) RETURNS void LANGUAGE sql AS $$
    SELECT watch_events(_channel, _seconds)
$$;
