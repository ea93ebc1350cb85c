-- Layout 7: schedules. A program that knows only the layout before this one keeps working: it does not use the table, and jobs that a
-- schedule has enqueued are like any other.

CREATE TABLE tenure_schedules (
    name TEXT PRIMARY KEY,
    settings TEXT NOT NULL,               -- JSON that the store does not read
    version INTEGER NOT NULL,             -- number of writes
    next REAL,                            -- the tick to fire next; NULL if there is none
    active INTEGER NOT NULL,              -- whether it is due when next has come
    tick REAL,                            -- the newest tick that was decided
    last TEXT,                            -- id of the last job, or run, that it enqueued
    seen_at REAL NOT NULL,                -- when it was created, or its declaration was last confirmed
    history TEXT NOT NULL DEFAULT '[]'    -- JSON array: the latest ticks, oldest first
) WITHOUT ROWID;
CREATE INDEX tenure_schedules_due ON tenure_schedules (next, name) WHERE active = 1 AND next IS NOT NULL;
