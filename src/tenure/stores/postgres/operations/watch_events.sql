-- watch_events: Register the channel as a watcher of published events for `_seconds`; NULL: remove it.
CREATE OR REPLACE FUNCTION watch_events(_channel text, _seconds float8) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF _seconds IS NULL THEN
        DELETE FROM watchers WHERE channel = _channel;
    ELSE
        INSERT INTO watchers (channel, until) VALUES (_channel, clock(NULL) + _seconds)
        ON CONFLICT (channel) DO UPDATE SET until = excluded.until;
    END IF;
END
$$;
