-- Layout 4: what became of attempts that have not succeeded.
-- A program of the layout before this one goes on working: it neither reads nor writes them, so that those which end by its hand
-- are missing, and with a job that it removes they go as well.

CREATE TABLE tenure_attempts (
    job INTEGER NOT NULL,             -- tenure_jobs.n
    fence INTEGER NOT NULL,
    number INTEGER NOT NULL,
    started_at REAL,
    ended_at REAL NOT NULL,
    worker TEXT,
    outcome TEXT NOT NULL,
    error TEXT,                       -- JSON, in brief
    PRIMARY KEY (job, fence)
) WITHOUT ROWID;

-- One that was leased once, and succeeded by that lease, has none.
CREATE TRIGGER tenure_attempts_gone AFTER DELETE ON tenure_jobs
WHEN old.fence > 1 OR old.state <> 'succeeded' OR old.nonce IS NULL BEGIN
    DELETE FROM tenure_attempts WHERE job = old.n;
END;
