-- register_worker: register a worker with its first heartbeat, replacing an earlier registration.
INSERT OR REPLACE INTO tenure_workers (id, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, beat, bell, release)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
