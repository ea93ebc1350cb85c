-- await_work: Register a caller as idle for `_seconds`, if that is not NULL, and return whether there is work already,
-- other than tasks in `_skip`.
--
-- An operation that puts a job in line afterwards finds the caller in `idle`. One whose transaction began before may
-- not, so callers look again themselves. `_serves` and `_excludes`: regular expressions of queue names.
CREATE OR REPLACE FUNCTION await_work(
    _channel text, _caller integer, _serves text, _excludes text, _seconds float8, _skip text[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := clock(NULL);
BEGIN
    IF _seconds IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
        INSERT INTO idle (channel, caller, serves, excludes, since, until)
        VALUES (_channel, _caller, _serves, _excludes, _now, _now + _seconds)
        ON CONFLICT (channel, caller) DO UPDATE SET until = excluded.until;
    END IF;
    RETURN has_work(_serves, _excludes, _skip);
END
$$;
