-- Layout 12: headers of jobs, orders to workers, the audit, richer searches. Programs of the layout before go on working:
-- `walk_jobs` replaces `walk`, `beat_worker` replaces `beat`, `registered_workers` replaces `find_workers`.

ALTER TABLE jobs ADD COLUMN headers text;  -- JSON of texts by name; NULL: none

ALTER TABLE workers ADD COLUMN current_order text COLLATE "C" NOT NULL DEFAULT 'go_on';  -- what an operator wants of it

-- What operators have done.
CREATE TABLE actions (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at float8 NOT NULL,
    action text NOT NULL                   -- JSON, because a text cannot hold NUL
);

-- As before, with `headers`.
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
       CASE WHEN l.n IS NULL THEN e.ready_at ELSE l.ready_at END AS ready_at, j.headers
FROM jobs j LEFT JOIN live l ON l.n = ANY (ARRAY[j.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[j.n]);

ALTER TYPE handed ADD ATTRIBUTE headers text;

-- They have one more parameter, or one more column.
DROP FUNCTION IF EXISTS enqueue(
    text, jsonb, jsonb, text, text, integer, float8, timestamptz, float8, text, float8, text[], float8, integer
);
DROP FUNCTION IF EXISTS enqueue_plain(
    float8, text, text, text, bytea, boolean, integer, float8, float8, float8, integer, integer, float8, float8, text[], text
);
DROP FUNCTION IF EXISTS new_jobs(json, bytea[]);
