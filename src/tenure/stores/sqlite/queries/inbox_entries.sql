-- inbox_entries: up to ?2 entries of the queue ?1 as bytes, the oldest first.
SELECT n, CAST(entry AS BLOB) FROM tenure_inbox WHERE queue = ?1 ORDER BY n LIMIT ?2
