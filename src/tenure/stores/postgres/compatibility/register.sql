-- register: `register_worker` for programs of layout 10 and before, which have no release.
CREATE OR REPLACE FUNCTION register(
    _now float8, _id text, _host text, _pid bigint, _queues text[], _tasks text[], _concurrency integer, _lanes text[],
    _pulse text, _channel text
) RETURNS void LANGUAGE sql AS $$
    SELECT register_worker(_now, _id, _host, _pid, _queues, _tasks, _concurrency, _lanes, _pulse, _channel, '')
$$;
