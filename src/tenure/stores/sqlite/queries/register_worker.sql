-- register_worker: enter a worker, or enter it again, with its first beat.
INSERT OR REPLACE INTO tenure_workers (id, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, beat, bell)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
