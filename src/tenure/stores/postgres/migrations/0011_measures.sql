-- Layout 11: measures over time, marks, when jobs became due, releases of workers. Programs of the layout before go on
-- working: `find_queues` replaces `list_queues`, `register_worker` replaces `register`, `find_workers` replaces `list_workers`.

-- When the job last became due; NULL: when it was created. Written only where a job is promoted or joins the line again.
ALTER TABLE live ADD COLUMN ready_at float8;
ALTER TABLE ended ADD COLUMN ready_at float8;

ALTER TABLE workers ADD COLUMN release text NOT NULL DEFAULT '';

-- Counters of a queue and a task in one slot of time. An empty queue means all queues, an empty task all tasks.
CREATE TABLE measures (
    resolution integer NOT NULL,           -- seconds of a slot; 0: the one slot since ever
    slot float8 NOT NULL,                  -- when the slot begins
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    counts jsonb NOT NULL,                 -- numbers by name, which are merged by adding
    gauges jsonb NOT NULL,                 -- numbers by name, of which the latest counts
    PRIMARY KEY (resolution, slot, queue, task)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Moments with a name, such as deploys.
CREATE TABLE marks (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at float8 NOT NULL,
    label text NOT NULL                    -- JSON, because a text cannot hold NUL
);

-- As before, with `ready_at`.
CREATE OR REPLACE VIEW records AS
SELECT j.n, j.id, j.task, j.queue, coalesce(l.state, e.state) AS state, j.payload, j.raw, j.priority,
       coalesce(l.seq, e.seq) AS seq, l.run_at, j.created_at, coalesce(l.attempt, e.attempt) AS attempt,
       coalesce(l.losses, e.losses) AS losses, coalesce(l.fence, e.fence) AS fence, coalesce(l.misses, e.misses) AS misses,
       j.max_attempts, j.max_losses, j.lease, j.keep,
       CASE WHEN l.n IS NULL THEN e.expires_at ELSE l.expires_at END AS expires_at, j.tags, j.unique_key, j.run_id,
       CASE WHEN l.n IS NULL THEN e.started_at ELSE l.started_at END AS started_at, e.ended_at,
       CASE WHEN l.n IS NULL THEN e.worker ELSE l.worker END AS worker,
       CASE WHEN l.lease_until IS NOT NULL
           THEN least(l.lease_until, extract(epoch FROM statement_timestamp())::float8 + l.held_for)
       END AS lease_until, e.result,
       CASE WHEN l.n IS NULL THEN e.error ELSE l.error END AS error, l.progress, coalesce(l.blocked_by, 0) AS blocked_by,
       CASE WHEN j.edges > 0 THEN ARRAY(SELECT d.result FROM edges d WHERE d.dependent = j.n ORDER BY d.position) END AS results,
       e.successor, CASE WHEN l.parked_until IS NULL THEN l.on_timeout END AS on_timeout, j.reads,
       CASE WHEN l.n IS NULL THEN e.ready_at ELSE l.ready_at END AS ready_at
FROM jobs j LEFT JOIN live l ON l.n = ANY (ARRAY[j.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[j.n]);

ALTER TYPE handed ADD ATTRIBUTE ready_at float8;
