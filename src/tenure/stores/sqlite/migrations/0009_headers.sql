-- Layout 9: headers of jobs, orders to workers, and the audit of what operators do.
-- A program that knows only the layout before this one keeps working. It enqueues jobs without headers, and leaves the headers of other
-- jobs as they are. A worker of that program takes no orders. What is done with that program is missing in the audit.

ALTER TABLE tenure_jobs ADD COLUMN headers TEXT;  -- JSON object of texts; NULL for none
ALTER TABLE tenure_workers ADD COLUMN standing_order TEXT NOT NULL DEFAULT 'go_on';

CREATE TABLE tenure_actions (
    n INTEGER PRIMARY KEY,                -- order of the actions
    at REAL NOT NULL,
    who TEXT NOT NULL,                    -- name of the operator
    tool TEXT NOT NULL,                   -- what it was done with, such as cli
    what TEXT NOT NULL,
    target TEXT NOT NULL,
    count INTEGER                         -- how many jobs, queues or workers it changed; NULL: not known
);
CREATE INDEX tenure_actions_by_time ON tenure_actions (at);
