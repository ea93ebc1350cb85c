-- Layout 3: runs of flows. The rows of tenure_jobs with the same run_id are the steps of a run, in the order of n. The id of the first
-- step is the run_id. Edges, waiters and the unique key of the run refer to that id.
-- A program that knows only the layout before this one keeps working: it does not know the tasks of steps, and releases them. Two
-- columns keep it from treating a step wrongly. keep_until is Infinity for a step that has handed over, so it is not pruned.
-- parked_until is Infinity for a step that goes on when its time of waiting is over, so it is not failed.

ALTER TABLE tenure_jobs ADD COLUMN flow TEXT;        -- only of the first step of a run
ALTER TABLE tenure_jobs ADD COLUMN reads TEXT;       -- JSON array: names of the attributes that a lease includes; NULL for none
ALTER TABLE tenure_jobs ADD COLUMN successor TEXT;   -- id of the step that it has handed over to
ALTER TABLE tenure_jobs ADD COLUMN on_timeout TEXT;  -- name of the step to hand over to when its time of waiting is over
ALTER TABLE tenure_jobs ADD COLUMN timeout_at REAL;  -- of a parked job with on_timeout: when that time is over

CREATE INDEX tenure_jobs_of_run ON tenure_jobs (run_id, n) WHERE run_id IS NOT NULL;
CREATE INDEX tenure_jobs_first ON tenure_jobs (flow, n) WHERE flow IS NOT NULL;
CREATE INDEX tenure_jobs_timeout ON tenure_jobs (queue, timeout_at) WHERE timeout_at IS NOT NULL;

-- How many of the succeeded jobs are steps that have handed over. Retention does not count them.
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
    n INTEGER NOT NULL,               -- number of the run's first step
    PRIMARY KEY (run_id, name, value)
) WITHOUT ROWID;
CREATE INDEX tenure_lookups_found ON tenure_lookups (flow, name, value, n);
