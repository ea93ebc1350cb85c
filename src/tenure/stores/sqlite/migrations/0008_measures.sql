-- Layout 8: the history of measures, marks, when jobs became due, and the releases of workers.
-- A program that knows only the layout before this one keeps working. It does not use the new tables. A job that it puts in line keeps
-- the ready_at that it has, so the wait of that job may appear longer than it was.

ALTER TABLE tenure_jobs ADD COLUMN ready_at REAL;  -- when it last became due; NULL: when it was created
ALTER TABLE tenure_workers ADD COLUMN release TEXT NOT NULL DEFAULT '';

-- Not WITHOUT ROWID: a row often has more than 1,000 bytes, and would then need a page by itself.
CREATE TABLE tenure_measures (
    resolution INTEGER NOT NULL,          -- seconds of a slot; 0: the one slot since ever
    slot REAL NOT NULL,                   -- begin of the slot
    queue TEXT NOT NULL,                  -- empty: all queues
    task TEXT NOT NULL,                   -- empty: all tasks of the queue
    counts TEXT NOT NULL,                 -- JSON object of numbers
    gauges TEXT NOT NULL,                 -- JSON object of numbers
    PRIMARY KEY (resolution, slot, queue, task)
);

CREATE TABLE tenure_marks (
    n INTEGER PRIMARY KEY,                -- order of the marks
    at REAL NOT NULL,
    label TEXT NOT NULL
);
