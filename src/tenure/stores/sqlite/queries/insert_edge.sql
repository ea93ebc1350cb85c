-- insert_edge: the job ?1 waits for the job ?3.
INSERT OR IGNORE INTO tenure_edges (dependent, position, blocker) VALUES (?1, ?2, ?3)
