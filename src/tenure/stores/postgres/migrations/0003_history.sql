-- Layout 3: jobs record their attempts, and watchers receive events.

-- The latest attempts that ended without success, each a JSON array as `add_attempt` makes it; NULL: none.
ALTER TABLE live ADD COLUMN attempts text[];
ALTER TABLE ended ADD COLUMN attempts text[];

-- Closed edges stay in this index: closing one then changes no index, and its row is updated in place if the page has room.
CREATE INDEX edges_of_blocker ON edges (blocker, dependent);
DROP INDEX edges_open;
ALTER TABLE edges SET (fillfactor = 50);

-- Watchers of events. A crash may empty it: each watcher registers again.
CREATE UNLOGGED TABLE watchers (
    channel text COLLATE "C" PRIMARY KEY,
    until float8 NOT NULL                  -- a watcher that has not registered again by then is gone
) WITH (fillfactor = 50);
