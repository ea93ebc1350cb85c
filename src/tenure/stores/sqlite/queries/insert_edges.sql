-- insert_edges: insert edges. ?1 is a JSON array of [dependent, position, blocker].
INSERT OR IGNORE INTO tenure_edges (dependent, position, blocker)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)
