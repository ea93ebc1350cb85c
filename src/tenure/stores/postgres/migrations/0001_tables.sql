-- Layout 1: the tables. schema.py runs this with the schema first in the search path.
--
-- A job is one row of `jobs`, written once, and one row of either `live` or `ended`, which holds its state. So a payload
-- is never copied, and the table that changes all the time has short rows, one for each job that has not ended. All times
-- are seconds since the epoch by the clock of this server; none is taken from a client.

CREATE TABLE layout (
    version integer NOT NULL,
    identity uuid NOT NULL                 -- random: a schema of this name in another database has another
);
INSERT INTO layout VALUES (0, gen_random_uuid());

-- Positions at the back of all lines. The first position of a job is also its number, which never changes.
CREATE SEQUENCE places;

CREATE TABLE jobs (
    n bigint PRIMARY KEY,                  -- order of enqueueing
    id text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    payload bytea NOT NULL,
    raw boolean NOT NULL,                  -- false: the payload is JSON of the arguments
    priority integer NOT NULL,
    created_at float8 NOT NULL,
    due_at float8,                         -- when it is first due; NULL: at once
    expires_at float8,
    max_attempts integer,
    max_losses integer NOT NULL,
    lease float8,
    keep float8,
    tags text[],
    unique_key text COLLATE "C",
    unique_until float8,                   -- end of the window; NULL: taken until the job is final
    run_id text COLLATE "C",
    edges integer NOT NULL,                -- number of jobs that it was enqueued after
    if_blocker_fails text COLLATE "C"
);
CREATE UNIQUE INDEX jobs_by_id ON jobs (id);

-- Jobs that are not final. A row is updated once when it is leased, and deleted when the job ends: so there is room for
-- the second version on the same page, and a vacuum as soon as it pays.
CREATE TABLE live (
    n bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,       -- blocked, waiting, running
    priority integer NOT NULL,
    seq bigint NOT NULL,                   -- position in line, after the priority
    run_at float8,                         -- of a waiting job: when it is due; NULL: it is in line
    suspect boolean NOT NULL DEFAULT false,
    attempt integer NOT NULL DEFAULT 0,
    losses integer NOT NULL DEFAULT 0,
    fence integer NOT NULL DEFAULT 0,
    misses integer NOT NULL DEFAULT 0,
    lease float8,
    expires_at float8,
    keep float8,
    keyed boolean NOT NULL,                -- has a unique key
    worker text COLLATE "C",
    nonce bigint,                          -- of the lease that holds the job or settled it; NULL if that token is void
    solo boolean NOT NULL DEFAULT false,   -- whether that lease was given alone, to a suspect
    started_at float8,
    lease_until float8,                    -- set if and only if running
    blocked_by integer NOT NULL DEFAULT 0, -- open edges, or 1 while parked
    parked_until float8,                   -- of a parked job: when its parking ends (Infinity: never)
    error text,                            -- JSON, or a text that records.py reads
    progress text                          -- JSON
) WITH (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX live_in_line ON live (queue, suspect, priority, seq) WHERE state = 'waiting' AND run_at IS NULL;
CREATE INDEX live_scheduled ON live (queue, run_at, seq) WHERE state = 'waiting' AND run_at IS NOT NULL;
CREATE INDEX live_blocked ON live (queue, priority, seq) WHERE state = 'blocked';
CREATE INDEX live_held ON live (queue, lease_until) WHERE state = 'running';
CREATE INDEX live_expiring ON live (queue, expires_at) WHERE expires_at IS NOT NULL AND attempt = 0;
CREATE INDEX live_parked ON live (queue, parked_until) WHERE parked_until IS NOT NULL;

-- Jobs that are final.
CREATE TABLE ended (
    n bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,       -- succeeded, failed, cancelled, broken
    ended_at float8 NOT NULL,
    keep_until float8,                     -- when it may be pruned; NULL: by the queue's retention
    seq bigint NOT NULL,
    attempt integer NOT NULL,
    losses integer NOT NULL,
    fence integer NOT NULL,
    misses integer NOT NULL,
    waited boolean NOT NULL DEFAULT false, -- whether a caller waited for the result
    expires_at float8,
    worker text COLLATE "C",
    nonce bigint,
    started_at float8,
    result text,
    error text
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ended_by_end ON ended (queue, state, ended_at, n);
CREATE INDEX ended_failed ON ended (task, ended_at, n) WHERE state = 'failed';
CREATE INDEX ended_kept ON ended (keep_until) WHERE keep_until IS NOT NULL;

-- One job waits for another, by id: the blocker may be deleted, and a job with the same id may be enqueued.
CREATE TABLE edges (
    dependent bigint NOT NULL,
    position integer NOT NULL,
    blocker text COLLATE "C" NOT NULL,
    open boolean NOT NULL DEFAULT true,
    result text,                           -- JSON, copied when the edge closes; or `failure_text`
    PRIMARY KEY (dependent, position)
);
CREATE INDEX edges_open ON edges (blocker, dependent) WHERE open;

CREATE TABLE uniques (
    task text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,         -- the id of the owner
    until float8,                          -- end of the window; NULL: until the job is final
    PRIMARY KEY (task, key)
);
CREATE INDEX uniques_ending ON uniques (until) WHERE until IS NOT NULL;

CREATE TABLE waiters (
    n bigint NOT NULL,
    channel text COLLATE "C" NOT NULL,     -- of a store object that waits for this job
    PRIMARY KEY (n, channel)
);

CREATE TABLE workers (
    id text COLLATE "C" PRIMARY KEY,
    generation bigint GENERATED ALWAYS AS IDENTITY,  -- a new one each time it registers
    host text NOT NULL,
    pid bigint NOT NULL,
    queues text[] NOT NULL,
    tasks text[] NOT NULL,
    concurrency integer NOT NULL,
    lanes text[] NOT NULL,
    pulse text NOT NULL,                   -- JSON: its state at the last beat
    started_at float8 NOT NULL,
    beat float8 NOT NULL,
    channel text COLLATE "C" NOT NULL
) WITH (fillfactor = 50);

-- When each periodic chore was last claimed.
CREATE TABLE turns (chore text COLLATE "C" PRIMARY KEY, taken_at float8 NOT NULL);

CREATE TABLE paused (queue text COLLATE "C" PRIMARY KEY);

-- Changes of the counts of jobs and of the totals of a queue, or of one generation of a worker. Operations add rows and
-- never update one, so that no two of them wait for each other; `fold_tallies` makes few rows of many. The sum of the rows
-- is the counter. A queue exists once it has a row here.
CREATE TABLE tallies (
    queue text COLLATE "C" NOT NULL,
    worker bigint,
    what text COLLATE "C" NOT NULL,
    number bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Callers that wait for work in queues that match `serves` and do not match `excludes`. A crash may empty it: each caller
-- registers again.
CREATE UNLOGGED TABLE idle (
    channel text COLLATE "C" NOT NULL,
    caller integer NOT NULL,
    serves text NOT NULL,
    excludes text NOT NULL,
    since float8 NOT NULL,
    until float8 NOT NULL,                 -- a caller that has not registered again by then is gone
    PRIMARY KEY (channel, caller)
);

-- Wake-ups at the commit of a caller's transaction. A row is deleted by the function that adds it; its deferred trigger
-- fires all the same.
CREATE UNLOGGED TABLE wakes (queue text COLLATE "C" NOT NULL, number bigint NOT NULL)
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE FUNCTION wake_at_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END';  -- replaced with the operations
CREATE CONSTRAINT TRIGGER wake_at_commit AFTER INSERT ON wakes DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION wake_at_commit();

-- Where the line of a queue begins, while dead index entries lie before it: see `mark_line_start`.
CREATE UNLOGGED TABLE fronts (
    queue text COLLATE "C" PRIMARY KEY,
    priority integer NOT NULL,
    seq bigint NOT NULL,
    until float8 NOT NULL
) WITH (fillfactor = 50);

-- Jobs from programs that can only INSERT. Format of an entry: tenure/core/inbox.py.
CREATE TABLE inbox (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- order of arrival
    queue text COLLATE "C" NOT NULL CHECK (queue ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}$'),
    entry text,
    bytes bytea,                           -- instead of the entry, if it is not valid text
    CHECK ((entry IS NULL) <> (bytes IS NULL))
);
CREATE INDEX inbox_of_queue ON inbox (queue, n);

-- The current record of every job.
CREATE VIEW records AS
SELECT j.n, j.id, j.task, j.queue, coalesce(l.state, e.state) AS state, j.payload, j.raw, j.priority,
       coalesce(l.seq, e.seq) AS seq, l.run_at, j.created_at, coalesce(l.attempt, e.attempt) AS attempt,
       coalesce(l.losses, e.losses) AS losses, coalesce(l.fence, e.fence) AS fence, coalesce(l.misses, e.misses) AS misses,
       j.max_attempts, j.max_losses, j.lease, j.keep,
       CASE WHEN l.n IS NULL THEN e.expires_at ELSE l.expires_at END AS expires_at, j.tags, j.unique_key, j.run_id,
       CASE WHEN l.n IS NULL THEN e.started_at ELSE l.started_at END AS started_at, e.ended_at,
       CASE WHEN l.n IS NULL THEN e.worker ELSE l.worker END AS worker, l.lease_until, e.result,
       CASE WHEN l.n IS NULL THEN e.error ELSE l.error END AS error, l.progress, coalesce(l.blocked_by, 0) AS blocked_by,
       CASE WHEN j.edges > 0 THEN ARRAY(SELECT d.result FROM edges d WHERE d.dependent = j.n ORDER BY d.position) END AS results
FROM jobs j LEFT JOIN live l ON l.n = ANY (ARRAY[j.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[j.n]);

-- A leased job. The last row of an answer has no job; see `lease_work`.
CREATE TYPE handed AS (
    n bigint, id text, task text, queue text, payload bytea, raw boolean, priority integer, seq bigint, created_at float8,
    attempt integer, losses integer, fence integer, misses integer, max_attempts integer, max_losses integer, lease float8,
    keep float8, expires_at float8, tags text[], unique_key text, run_id text, error text, results text[],
    solo boolean, suspect_waiting boolean, due_in float8, inbox boolean, now float8, verdicts text[]
);

-- A job that was taken from a worker that is silent or gone.
CREATE TYPE reaped AS (id text, queue text, task text, worker text, losses integer, failed boolean);

-- A job in a listing, or the last row of a page; see `walk`.
CREATE TYPE walked AS (n bigint, looked_at integer, place float8[]);
