-- delete_edges: delete the edges of the dependents in the JSON array ?1.
DELETE FROM tenure_edges WHERE dependent IN (SELECT value FROM json_each(?1))
