-- Layout 1. Every name starts with tenure_, because the file may be the application's own database.
-- Columns ending in _at or _until are wall times in seconds since the epoch. Only lease_until, and beat of a worker, are seconds since
-- boot: they mean nothing after a reboot, which is noticed by the boot id in tenure_meta.

CREATE TABLE tenure_meta (
    key   TEXT PRIMARY KEY,  -- layout; boot; and for each chore, when it last began
    value
) WITHOUT ROWID;

CREATE TABLE tenure_jobs (
    n INTEGER PRIMARY KEY,            -- order of enqueueing
    id TEXT NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    payload NOT NULL,                 -- TEXT: JSON of the arguments; BLOB: raw bytes
    priority INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    run_at REAL,                      -- of a waiting job: when it is due; NULL once it is in line
    suspect INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    misses INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER,
    max_losses INTEGER NOT NULL,
    lease REAL,
    keep REAL,
    expires_at REAL,
    tags TEXT,                        -- JSON array; NULL for none
    unique_key TEXT,
    window REAL,                      -- seconds that the unique key is held; NULL: until the job is final
    run_id TEXT,
    started_at REAL,
    ended_at REAL,                    -- set if and only if the job is final
    worker TEXT,
    nonce INTEGER,                    -- of the lease that holds the job or has settled it; NULL once the token is invalid
    lease_until REAL,                 -- set if and only if the job is running
    solo INTEGER NOT NULL DEFAULT 0,  -- whether that lease was handed out alone, as that of a suspect is
    result TEXT,
    error TEXT,                       -- JSON
    progress TEXT,                    -- JSON
    edges INTEGER NOT NULL DEFAULT 0, -- number of blockers it was enqueued with
    blocked_by INTEGER NOT NULL DEFAULT 0,  -- number of these edges that are open
    if_blocker_fails TEXT,
    parked_until REAL,                -- blocked until it is completed from outside, or until then (Infinity: without limit)
    waited INTEGER NOT NULL DEFAULT 0,  -- whether a caller waits, or has waited, for its end
    blocks INTEGER NOT NULL DEFAULT 0,  -- whether a job has an edge to this one
    keep_until REAL                   -- of a final job: when it may be pruned, instead of by the queue's retention
);

CREATE UNIQUE INDEX tenure_jobs_by_id ON tenure_jobs (id);
CREATE INDEX tenure_jobs_in_line ON tenure_jobs (queue, suspect, priority, seq) WHERE state = 'waiting' AND run_at IS NULL;
CREATE INDEX tenure_jobs_scheduled ON tenure_jobs (queue, run_at, seq) WHERE state = 'waiting' AND run_at IS NOT NULL;
CREATE INDEX tenure_jobs_blocked ON tenure_jobs (queue, priority, seq) WHERE state = 'blocked';
CREATE INDEX tenure_jobs_held ON tenure_jobs (queue, lease_until) WHERE state = 'running';
CREATE INDEX tenure_jobs_ended ON tenure_jobs (queue, state, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX tenure_jobs_failed ON tenure_jobs (task, ended_at) WHERE state = 'failed';
CREATE INDEX tenure_jobs_kept ON tenure_jobs (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX tenure_jobs_parked ON tenure_jobs (queue, parked_until) WHERE parked_until IS NOT NULL;
CREATE INDEX tenure_jobs_expiring ON tenure_jobs (queue, expires_at)
    WHERE expires_at IS NOT NULL AND attempt = 0 AND ended_at IS NULL;

CREATE TABLE tenure_edges (
    dependent TEXT NOT NULL,
    position INTEGER NOT NULL,
    blocker TEXT NOT NULL,
    open INTEGER NOT NULL DEFAULT 1,
    result TEXT,                      -- JSON, copied from the blocker when the edge closes
    PRIMARY KEY (dependent, position)
) WITHOUT ROWID;
CREATE INDEX tenure_edges_open ON tenure_edges (blocker, dependent) WHERE open = 1;

CREATE TABLE tenure_uniques (
    task TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id TEXT NOT NULL,
    until REAL,                       -- end of the window; NULL: until the job is final
    PRIMARY KEY (task, key)
) WITHOUT ROWID;
CREATE INDEX tenure_uniques_ending ON tenure_uniques (until) WHERE until IS NOT NULL;

CREATE TABLE tenure_waiters (
    job_id TEXT NOT NULL,
    bell TEXT NOT NULL,               -- doorbell of the waiting process
    PRIMARY KEY (job_id, bell)
) WITHOUT ROWID;

-- Counters say how many jobs are in a state now; totals only grow. The row with the empty name is not a queue: its seq is the last one
-- given out, for all queues. It is stored here because every enqueue changes both: one page and one statement less.
CREATE TABLE tenure_queues (
    name TEXT PRIMARY KEY,
    seq INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0,
    waiting INTEGER NOT NULL DEFAULT 0,
    scheduled INTEGER NOT NULL DEFAULT 0,
    blocked INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    broken INTEGER NOT NULL DEFAULT 0,
    total_processed INTEGER NOT NULL DEFAULT 0,
    total_succeeded INTEGER NOT NULL DEFAULT 0,
    total_failed INTEGER NOT NULL DEFAULT 0,
    total_retried INTEGER NOT NULL DEFAULT 0,
    total_lost INTEGER NOT NULL DEFAULT 0,
    total_cancelled INTEGER NOT NULL DEFAULT 0,
    total_broken INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE tenure_workers (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    queues TEXT NOT NULL,             -- JSON array
    tasks TEXT NOT NULL,              -- JSON array
    concurrency INTEGER NOT NULL,
    lanes TEXT NOT NULL,              -- JSON array
    pulse TEXT NOT NULL,              -- JSON: contents of its last heartbeat
    started_at REAL NOT NULL,
    beat REAL NOT NULL,
    bell TEXT NOT NULL,
    total_processed INTEGER NOT NULL DEFAULT 0,
    total_succeeded INTEGER NOT NULL DEFAULT 0,
    total_failed INTEGER NOT NULL DEFAULT 0,
    total_retried INTEGER NOT NULL DEFAULT 0,
    total_lost INTEGER NOT NULL DEFAULT 0,
    total_cancelled INTEGER NOT NULL DEFAULT 0,
    total_broken INTEGER NOT NULL DEFAULT 0
);

INSERT INTO tenure_queues (name) VALUES ('');
