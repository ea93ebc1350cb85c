-- Layout 3: jobs remember their attempts, and whoever watches is told what happens.

-- Attempts that have ended without success, the latest, each a JSON array as `remembered` makes it; NULL if there is none.
ALTER TABLE live ADD COLUMN attempts text[];
ALTER TABLE ended ADD COLUMN attempts text[];

-- Closed edges stay in this index: to close one then changes none, and its row is changed in place, where there is room for that.
CREATE INDEX edges_of_blocker ON edges (blocker, dependent);
DROP INDEX edges_open;
ALTER TABLE edges SET (fillfactor = 50);

-- Who wants to hear notes. Nothing is lost with it in a crash: each says so again.
CREATE UNLOGGED TABLE watchers (
    channel text COLLATE "C" PRIMARY KEY,
    until float8 NOT NULL                  -- who has not said so again by then is gone
) WITH (fillfactor = 50);
