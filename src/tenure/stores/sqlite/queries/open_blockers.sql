-- open_blockers: up to ?2 of those that the blocked job ?1 still waits for, in its own order.
SELECT e.blocker FROM tenure_jobs AS j JOIN tenure_edges AS e ON e.dependent = j.id
WHERE j.id = ?1 AND j.state = 'blocked' AND e.open = 1
ORDER BY e.position
LIMIT ?2
