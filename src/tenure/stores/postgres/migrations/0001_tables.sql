-- Layout 1. Made in a schema of its own, which is first in the search path while this runs.
--
-- A job is one row of `jobs`, written once, and one row of either `live` or `ended`, which says what has become of it. So a
-- payload is never copied, and the table that changes all the time has short rows, and only as many as there are jobs that
-- have not ended. All instants are seconds since the epoch by the clock of this server; none is taken from a client.

CREATE TABLE layout (
    version integer NOT NULL,
    identity uuid NOT NULL                 -- drawn once: a schema of this name in another database has another
);
INSERT INTO layout VALUES (0, gen_random_uuid());

-- Places at the back of all lines. The first one that a job was given is also its number, for ever.
CREATE SEQUENCE places;

CREATE TABLE jobs (
    n bigint PRIMARY KEY,                  -- order of enqueueing
    id text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    payload bytea NOT NULL,
    raw boolean NOT NULL,                  -- else the payload is JSON of the arguments
    priority integer NOT NULL,
    created_at float8 NOT NULL,
    due_at float8,                         -- first due; NULL: at once
    expires_at float8,
    max_attempts integer,
    max_losses integer NOT NULL,
    lease float8,
    keep float8,
    tags text[],
    unique_key text COLLATE "C",
    unique_until float8,                   -- end of the window; NULL: held until the job is final
    run_id text COLLATE "C",
    edges integer NOT NULL,                -- jobs it was told to wait for
    if_blocker_fails text COLLATE "C"
);
CREATE UNIQUE INDEX jobs_by_id ON jobs (id);

-- Jobs that are not final. A row is changed once when it is leased, and goes when the job ends: room for the second version
-- on the same page, and a vacuum as soon as it pays.
CREATE TABLE live (
    n bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,       -- blocked, waiting, running
    priority integer NOT NULL,
    seq bigint NOT NULL,                   -- place in line, after the priority
    run_at float8,                         -- waiting: NULL once in line
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
    nonce bigint,                          -- of the lease that holds the job or settled it; NULL once the token is dead
    solo boolean NOT NULL DEFAULT false,   -- whether that lease was handed out alone
    started_at float8,
    lease_until float8,                    -- set if and only if running
    blocked_by integer NOT NULL DEFAULT 0, -- open edges, or 1 while parked
    parked_until float8,                   -- blocked until completed from outside, or until then (Infinity: for ever)
    error text,                            -- JSON, or words that records.py reads
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
    keep_until float8,                     -- pruned from then on, and not by the queue's retention
    seq bigint NOT NULL,
    attempt integer NOT NULL,
    losses integer NOT NULL,
    fence integer NOT NULL,
    misses integer NOT NULL,
    waited boolean NOT NULL DEFAULT false, -- somebody waited for the result
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

-- One job's waiting for another, by id: the blocker may be deleted, and another of its name may come.
CREATE TABLE edges (
    dependent bigint NOT NULL,
    position integer NOT NULL,
    blocker text COLLATE "C" NOT NULL,
    open boolean NOT NULL DEFAULT true,
    result text,                           -- JSON, copied when the edge closes; or words about a failure
    PRIMARY KEY (dependent, position)
);
CREATE INDEX edges_open ON edges (blocker, dependent) WHERE open;

CREATE TABLE uniques (
    task text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,         -- the id of who holds it
    until float8,                          -- end of the window; NULL: until the job is final
    PRIMARY KEY (task, key)
);
CREATE INDEX uniques_ending ON uniques (until) WHERE until IS NOT NULL;

CREATE TABLE waiters (
    n bigint NOT NULL,
    channel text COLLATE "C" NOT NULL,     -- of who waits for this job
    PRIMARY KEY (n, channel)
);

CREATE TABLE workers (
    id text COLLATE "C" PRIMARY KEY,
    generation bigint GENERATED ALWAYS AS IDENTITY,  -- another one each time it registers
    host text NOT NULL,
    pid bigint NOT NULL,
    queues text[] NOT NULL,
    tasks text[] NOT NULL,
    concurrency integer NOT NULL,
    lanes text[] NOT NULL,
    pulse text NOT NULL,                   -- JSON: what it said with its last beat
    started_at float8 NOT NULL,
    beat float8 NOT NULL,
    channel text COLLATE "C" NOT NULL
) WITH (fillfactor = 50);

-- When each chore was last begun that somebody does for all.
CREATE TABLE turns (chore text COLLATE "C" PRIMARY KEY, taken_at float8 NOT NULL);

CREATE TABLE paused (queue text COLLATE "C" PRIMARY KEY);

-- What has changed in the counts of jobs by place, and in the totals, of a queue (or of one generation of a worker). Steps
-- add rows and never change one, so that no two of them wait for each other; `fold` makes few rows of many. The sum is the
-- counter. A queue exists once it has a row here.
CREATE TABLE tallies (
    queue text COLLATE "C" NOT NULL,
    worker bigint,
    what text COLLATE "C" NOT NULL,
    number bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Who waits for work: in queues that match the one expression and not the other. Nothing is lost with it in a crash.
CREATE UNLOGGED TABLE idle (
    channel text COLLATE "C" NOT NULL,
    caller integer NOT NULL,
    serves text NOT NULL,
    excludes text NOT NULL,
    since float8 NOT NULL,
    until float8 NOT NULL,                 -- who has not said so again by then is gone
    PRIMARY KEY (channel, caller)
);

-- Whom to wake when a caller's transaction commits. A row never outlives the step that adds it; its trigger does.
CREATE UNLOGGED TABLE wakes (queue text COLLATE "C" NOT NULL, number bigint NOT NULL)
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE FUNCTION wake_at_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END';  -- made anew with the steps
CREATE CONSTRAINT TRIGGER wake_at_commit AFTER INSERT ON wakes DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION wake_at_commit();

-- Where a line begins, for a moment, while its beginning is cluttered: see `note_front`.
CREATE UNLOGGED TABLE fronts (
    queue text COLLATE "C" PRIMARY KEY,
    priority integer NOT NULL,
    seq bigint NOT NULL,
    until float8 NOT NULL
) WITH (fillfactor = 50);

-- Where any program that can INSERT is a producer. What an entry looks like: tenure/inbox.py.
CREATE TABLE inbox (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- order of arrival
    queue text COLLATE "C" NOT NULL CHECK (queue ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}$'),
    entry text,
    bytes bytea,                           -- instead of the entry, where that may be no text
    CHECK ((entry IS NULL) <> (bytes IS NULL))
);
CREATE INDEX inbox_of_queue ON inbox (queue, n);

-- Every job as it is now.
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

-- A job as it is handed out. The last row of an answer has no job, and says the rest.
CREATE TYPE handed AS (
    n bigint, id text, task text, queue text, payload bytea, raw boolean, priority integer, seq bigint, created_at float8,
    attempt integer, losses integer, fence integer, misses integer, max_attempts integer, max_losses integer, lease float8,
    keep float8, expires_at float8, tags text[], unique_key text, run_id text, error text, results text[],
    solo boolean, suspect_waiting boolean, due_in float8, inbox boolean, now float8, verdicts text[]
);

-- A job that was taken from a worker which is silent or gone.
CREATE TYPE reaped AS (id text, queue text, task text, worker text, losses integer, failed boolean);

-- A job in a listing, or the end of a page.
CREATE TYPE walked AS (n bigint, looked_at integer, place float8[]);
