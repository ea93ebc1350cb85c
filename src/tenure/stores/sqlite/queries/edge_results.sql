-- edge_results: what the blockers of the jobs in the JSON array ?1 have given them.
SELECT dependent, result FROM tenure_edges WHERE dependent IN (SELECT value FROM json_each(?1)) ORDER BY dependent, position
