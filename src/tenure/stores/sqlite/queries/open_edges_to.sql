-- open_edges_to: who waits for the job ?1, in order of id, and what each does if it fails.
SELECT e.dependent, e.position, j.if_blocker_fails
FROM tenure_edges AS e JOIN tenure_jobs AS j ON j.id = e.dependent
WHERE e.blocker = ?1 AND e.open = 1 AND j.state = 'blocked'
ORDER BY e.dependent, e.position
