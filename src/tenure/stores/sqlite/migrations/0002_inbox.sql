-- Layout 2: the inbox, where any program that can INSERT is a producer. What an entry looks like: tenure/inbox.py.
-- A program of the layout before this one goes on working, and leaves the inbox to the others.

CREATE TABLE tenure_inbox (
    n INTEGER PRIMARY KEY,  -- order of arrival
    queue TEXT NOT NULL CHECK (
        length(queue) <= 127 AND queue GLOB '[A-Za-z0-9]*' AND queue NOT GLOB '*[^A-Za-z0-9_.:-]*'
    ),
    entry NOT NULL CHECK (typeof(entry) IN ('text', 'blob'))
);
CREATE INDEX tenure_inbox_of_queue ON tenure_inbox (queue, n);

-- Whether there may be something: a lease looks here, for the row of the queue is read anyway. Only taking in resets it, so
-- that entries which somebody has deleted by hand cost one look in vain.
ALTER TABLE tenure_queues ADD COLUMN inbox INTEGER NOT NULL DEFAULT 0;

-- Not by INSERT OR IGNORE: the conflict clause of the producer's own statement would override it.
CREATE TRIGGER tenure_inbox_filled AFTER INSERT ON tenure_inbox BEGIN
    INSERT INTO tenure_queues (name)
        SELECT new.queue WHERE NOT EXISTS (SELECT 1 FROM tenure_queues WHERE name = new.queue);
    UPDATE tenure_queues SET inbox = 1 WHERE name = new.queue AND inbox = 0;
END;
