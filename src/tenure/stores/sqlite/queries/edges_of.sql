-- edges_of: the first ?2 blockers that the job ?1 was told to wait for, and whether each edge is open, in the order of its edges.
SELECT blocker, open FROM tenure_edges WHERE dependent = ?1 ORDER BY position LIMIT ?2
