-- Layout 2: runs of flows, whose steps are jobs. The first step stands for the run: its number is in the column `run` of
-- all steps, its id is the run's. The current step is the one with the greatest number.

ALTER TABLE jobs
    ADD COLUMN run bigint,                 -- of a step: the number of its run's first step
    ADD COLUMN flow text COLLATE "C",      -- of a first step; NULL for all others
    ADD COLUMN reads text[];               -- names of the attributes that its lease carries
CREATE INDEX jobs_of_run ON jobs (run, n) WHERE run IS NOT NULL;
CREATE INDEX runs_of_flow ON jobs (flow, n) WHERE flow IS NOT NULL;

ALTER TABLE live
    ADD COLUMN run bigint,
    ADD COLUMN on_timeout text;            -- of a job that is or was parked: the step to hand over to when its parking ends

-- `keyed` is true of every step of a run whose first step has a unique key, because the run owns it until it ends.

ALTER TABLE ended ADD COLUMN successor text COLLATE "C";  -- the id of the step that it handed over to

-- Each ended job is in one of the two indexes, so that retention, which looks for the oldest, does not meet the steps of
-- runs that go on.
DROP INDEX ended_by_end;
CREATE INDEX ended_by_end ON ended (queue, state, ended_at, n) WHERE successor IS NULL;
CREATE INDEX ended_handed ON ended (queue, state, ended_at, n) WHERE successor IS NOT NULL;

CREATE TABLE attributes (
    run bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text NOT NULL,                   -- JSON
    PRIMARY KEY (run, name)
);

-- Values by which runs can be found.
CREATE TABLE lookups (
    run bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    flow text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, name, value)
);
CREATE INDEX lookups_of_flow ON lookups (flow, name, value, run);

CREATE OR REPLACE VIEW records AS
SELECT j.n, j.id, j.task, j.queue, coalesce(l.state, e.state) AS state, j.payload, j.raw, j.priority,
       coalesce(l.seq, e.seq) AS seq, l.run_at, j.created_at, coalesce(l.attempt, e.attempt) AS attempt,
       coalesce(l.losses, e.losses) AS losses, coalesce(l.fence, e.fence) AS fence, coalesce(l.misses, e.misses) AS misses,
       j.max_attempts, j.max_losses, j.lease, j.keep,
       CASE WHEN l.n IS NULL THEN e.expires_at ELSE l.expires_at END AS expires_at, j.tags, j.unique_key, j.run_id,
       CASE WHEN l.n IS NULL THEN e.started_at ELSE l.started_at END AS started_at, e.ended_at,
       CASE WHEN l.n IS NULL THEN e.worker ELSE l.worker END AS worker, l.lease_until, e.result,
       CASE WHEN l.n IS NULL THEN e.error ELSE l.error END AS error, l.progress, coalesce(l.blocked_by, 0) AS blocked_by,
       CASE WHEN j.edges > 0 THEN ARRAY(SELECT d.result FROM edges d WHERE d.dependent = j.n ORDER BY d.position) END AS results,
       e.successor, CASE WHEN l.parked_until IS NULL THEN l.on_timeout END AS on_timeout, j.reads
FROM jobs j LEFT JOIN live l ON l.n = ANY (ARRAY[j.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[j.n]);

ALTER TYPE handed
    ADD ATTRIBUTE reads text[],
    ADD ATTRIBUTE attributes text[],       -- each a name and its value, separated by the byte 31, which JSON cannot contain
    ADD ATTRIBUTE on_timeout text;

-- A run in a listing with its current step, or the last row of a page; see `walk_runs`.
CREATE TYPE run_found AS (
    run bigint, run_id text, flow text, began_at float8, step bigint, completed_queue text, looked_at integer, place bigint
);

-- Functions of layout 1 whose parameters or answers have changed.
DROP FUNCTION IF EXISTS new_jobs(json, bytea[]);
DROP FUNCTION IF EXISTS conclude(float8, bigint, text, text, text, text, boolean);
DROP FUNCTION IF EXISTS follow(float8, text, text, text, text, bigint);
DROP FUNCTION IF EXISTS finish_held(float8, live, text, text, text, json, bytea[]);
