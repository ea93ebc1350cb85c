-- Layout 7. Programs of the layout before go on working.
-- Many queues: counters are folded into a table of their own, so that folding rewrites what has changed and not what there is
-- (`prune_from` takes the place of `prune`, `busy_queues` of `tend`); and queues are found by when one of their jobs has its time.
-- Leases know their length, so that none outlives it because the clock of the server was set back. A lease can leave jobs of some
-- tasks to other workers, and can be shorter than its job says: `lease_work` and `await_work` take the place of `lease_jobs` and
-- `go_idle`. An operator can release a running job.

DROP FUNCTION IF EXISTS has_work(text, text);  -- it has a parameter more
DROP FUNCTION IF EXISTS settle_rest;  -- it has a parameter more, and gives the verdicts alone

-- What has been folded from `tallies`.
CREATE TABLE counters (
    queue text COLLATE "C" NOT NULL,
    worker bigint NOT NULL,                -- 0: of the queue itself
    what text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (queue, worker, what)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX counters_of_workers ON counters (worker) WHERE worker > 0;

-- Counters as they are: the sum of the rows of one name.
CREATE VIEW counted AS
SELECT queue, worker, what, number FROM tallies
UNION ALL
SELECT queue, nullif(worker, 0), what, number FROM counters;

-- Jobs that have something to do at a time without being leased: they come due, they expire, their parking ends.
CREATE INDEX live_timed ON live (least(run_at, parked_until, CASE WHEN attempt = 0 THEN expires_at END), queue)
WHERE run_at IS NOT NULL OR parked_until IS NOT NULL OR (expires_at IS NOT NULL AND attempt = 0);

ALTER TABLE live ADD COLUMN held_for float8;  -- seconds that the lease was given or last renewed for; NULL: before this layout

-- As before, but no lease ends later than its length from now: `reap` shortens one that does. Not by clock_timestamp(): a view with a
-- volatile function is not joined by an index, but computed whole.
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
       e.successor, CASE WHEN l.parked_until IS NULL THEN l.on_timeout END AS on_timeout, j.reads
FROM jobs j LEFT JOIN live l ON l.n = ANY (ARRAY[j.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[j.n]);
