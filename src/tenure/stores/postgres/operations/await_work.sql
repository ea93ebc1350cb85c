-- await_work: a caller waits for work, for so many seconds, in queues that match the one expression and not the other; true if
-- there is some already, of other tasks than _skip. Whoever puts a job in line from then on finds the caller here. (One whose transaction began before
-- may not: callers look again by themselves.) Without seconds it only looks.
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
