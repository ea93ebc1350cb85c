-- edge_results: the results that the jobs in the JSON array ?1 have received from their blockers so far, in the order of their
-- edges.
SELECT dependent, result FROM tenure_edges WHERE dependent IN (SELECT value FROM json_each(?1)) ORDER BY dependent, position
