-- open_edges_to: the open edges to the job ?1 or ?2: dependent, position, its policy if a blocker fails, its state, and which
-- of the two jobs is the blocker. In order of the dependents' seq. A dependent may be final itself.
SELECT e.dependent, e.position, j.if_blocker_fails, j.state, e.blocker
FROM tenure_edges AS e JOIN tenure_jobs AS j ON j.id = e.dependent
WHERE e.blocker IN (?1, ?2) AND e.open = 1
ORDER BY j.seq, e.position
