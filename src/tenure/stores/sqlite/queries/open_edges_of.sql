-- open_edges_of: the blockers of the job ?1 whose edges are open, and whether each still exists.
SELECT e.blocker, j.id IS NOT NULL
FROM tenure_edges AS e LEFT JOIN tenure_jobs AS j ON j.id = e.blocker
WHERE e.dependent = ?1 AND e.open = 1
