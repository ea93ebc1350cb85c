-- Layout 4: a record of each attempt that has not succeeded.
-- A program that knows only the layout before this one keeps working. It writes no records, so attempts that it settles are missing. When
-- it deletes a job, the trigger deletes the records.

CREATE TABLE tenure_attempts (
    job INTEGER NOT NULL,             -- tenure_jobs.n
    fence INTEGER NOT NULL,
    number INTEGER NOT NULL,
    started_at REAL,
    ended_at REAL NOT NULL,
    worker TEXT,
    outcome TEXT NOT NULL,
    error TEXT,                       -- JSON, shortened
    PRIMARY KEY (job, fence)
) WITHOUT ROWID;

-- A job that succeeded under its first lease has no records.
CREATE TRIGGER tenure_attempts_gone AFTER DELETE ON tenure_jobs
WHEN old.fence > 1 OR old.state <> 'succeeded' OR old.nonce IS NULL BEGIN
    DELETE FROM tenure_attempts WHERE job = old.n;
END;
