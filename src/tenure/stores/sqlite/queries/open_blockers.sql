-- open_blockers: up to ?2 blockers that the blocked job ?1 still waits for, in the order of its edges.
SELECT e.blocker FROM tenure_jobs AS j JOIN tenure_edges AS e ON e.dependent = j.id
WHERE j.id = ?1 AND j.state = 'blocked' AND e.open = 1
ORDER BY e.position
LIMIT ?2
