-- list_actions: up to ?3 actions with numbers below ?1 and after the time ?2, the latest first. The + keeps SQLite from using the index
-- of times, which would have to read and sort all of them.
SELECT n, at, who, tool, what, target, count FROM tenure_actions WHERE n < ?1 AND +at > ?2 ORDER BY n DESC LIMIT ?3
