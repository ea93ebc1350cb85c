-- go_idle: `await_work` for programs of layout 6 and before, which skip no tasks.
CREATE OR REPLACE FUNCTION go_idle(
    _channel text, _caller integer, _serves text, _excludes text, _seconds float8
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN await_work(_channel, _caller, _serves, _excludes, _seconds, NULL);
END
$$;
