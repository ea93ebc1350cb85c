-- insert_edges: each job waits for another. The JSON array ?1 has dependent, position and blocker of each edge.
INSERT OR IGNORE INTO tenure_edges (dependent, position, blocker)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
