-- Layout 3: runs of flows. The rows of tenure_jobs with the same run_id are the steps of a run, in the order of n; the first
-- one's id is the run_id, and is what edges, waiters and the unique key of the run go by.
-- A program of the layout before this one goes on working: it does not know the tasks of steps, and gives them back. What
-- would look finished to it, or out of time, and is not, says so in a way that it understands: keep_until is Infinity for a
-- step that has handed over, and parked_until for one that is to go on when its time of waiting is over.

ALTER TABLE tenure_jobs ADD COLUMN flow TEXT;        -- only of the first step of a run
ALTER TABLE tenure_jobs ADD COLUMN reads TEXT;       -- JSON array: attributes that a lease comes with; NULL for none
ALTER TABLE tenure_jobs ADD COLUMN successor TEXT;   -- the step that it has handed over to
ALTER TABLE tenure_jobs ADD COLUMN on_timeout TEXT;  -- the step to hand over to, its time of waiting being over
ALTER TABLE tenure_jobs ADD COLUMN timeout_at REAL;  -- parked: when that time is over

CREATE INDEX tenure_jobs_of_run ON tenure_jobs (run_id, n) WHERE run_id IS NOT NULL;
CREATE INDEX tenure_jobs_first ON tenure_jobs (flow, n) WHERE flow IS NOT NULL;
CREATE INDEX tenure_jobs_timeout ON tenure_jobs (queue, timeout_at) WHERE timeout_at IS NOT NULL;

-- Of those that have succeeded: steps that have handed over, which retention does not count.
ALTER TABLE tenure_queues ADD COLUMN passed INTEGER NOT NULL DEFAULT 0;

CREATE TABLE tenure_attributes (
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,              -- JSON
    PRIMARY KEY (run_id, name)
) WITHOUT ROWID;

CREATE TABLE tenure_lookups (
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    flow TEXT NOT NULL,
    n INTEGER NOT NULL,               -- of the first step
    PRIMARY KEY (run_id, name, value)
) WITHOUT ROWID;
CREATE INDEX tenure_lookups_found ON tenure_lookups (flow, name, value, n);
