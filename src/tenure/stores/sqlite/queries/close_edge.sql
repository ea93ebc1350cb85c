-- close_edge: close the edge at position ?2 of the dependent ?1, and store in it the value ?3 that the dependent receives.
UPDATE tenure_edges SET open = 0, result = ?3 WHERE dependent = ?1 AND position = ?2
