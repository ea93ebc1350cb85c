-- open_edges_to: who waits for the job ?1 (or would, were it not final), in order of seq, and what each does if it fails.
SELECT e.dependent, e.position, j.if_blocker_fails, j.state
FROM tenure_edges AS e JOIN tenure_jobs AS j ON j.id = e.dependent
WHERE e.blocker = ?1 AND e.open = 1
ORDER BY j.seq, e.position
