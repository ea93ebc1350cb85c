-- register_worker: Register a worker with its first beat. A worker that registers again starts anew. `_channel`: where
-- announcements to it go.
CREATE OR REPLACE FUNCTION register_worker(
    _now float8, _id text, _host text, _pid bigint, _queues text[], _tasks text[], _concurrency integer, _lanes text[],
    _pulse text, _channel text, _release text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    _now := clock(_now);
    DELETE FROM workers WHERE id = _id;
    INSERT INTO workers (id, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, beat, channel, release)
    VALUES (_id, _host, _pid, _queues, _tasks, _concurrency, _lanes, _pulse, _now, _now, _channel, _release);
END
$$;
