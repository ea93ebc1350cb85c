-- open_edges_to: who waits for the job ?1 or ?2 (or would, were it not final), in order of seq, what each does if it fails, and for
-- which of the two it waits.
SELECT e.dependent, e.position, j.if_blocker_fails, j.state, e.blocker
FROM tenure_edges AS e JOIN tenure_jobs AS j ON j.id = e.dependent
WHERE e.blocker IN (?1, ?2) AND e.open = 1
ORDER BY j.seq, e.position
