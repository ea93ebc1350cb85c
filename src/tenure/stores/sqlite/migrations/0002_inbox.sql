-- Layout 2: the inbox, into which any program can INSERT jobs. The format of an entry: core/inbox.py.
-- A program that knows only the layout before this one keeps working. It leaves the inbox to newer programs.

CREATE TABLE tenure_inbox (
    n INTEGER PRIMARY KEY,  -- order of arrival
    queue TEXT NOT NULL CHECK (
        length(queue) <= 127 AND queue GLOB '[A-Za-z0-9]*' AND queue NOT GLOB '*[^A-Za-z0-9_.:-]*'
    ),
    entry NOT NULL CHECK (typeof(entry) IN ('text', 'blob'))
);
CREATE INDEX tenure_inbox_of_queue ON tenure_inbox (queue, n);

-- Whether the inbox may have entries. A lease reads the row of the queue anyway, so this costs it nothing. Only take_in resets the flag:
-- entries that were deleted by hand cost one needless look.
ALTER TABLE tenure_queues ADD COLUMN inbox INTEGER NOT NULL DEFAULT 0;

-- Not INSERT OR IGNORE, because a conflict clause in the producer's own statement would override it.
CREATE TRIGGER tenure_inbox_filled AFTER INSERT ON tenure_inbox BEGIN
    INSERT INTO tenure_queues (name)
        SELECT new.queue WHERE NOT EXISTS (SELECT 1 FROM tenure_queues WHERE name = new.queue);
    UPDATE tenure_queues SET inbox = 1 WHERE name = new.queue AND inbox = 0;
END;
