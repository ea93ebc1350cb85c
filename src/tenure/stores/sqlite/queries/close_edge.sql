-- close_edge: the dependent ?1 need not wait for its blocker at ?2 any more, and owns its result ?3.
UPDATE tenure_edges SET open = 0, result = ?3 WHERE dependent = ?1 AND position = ?2
