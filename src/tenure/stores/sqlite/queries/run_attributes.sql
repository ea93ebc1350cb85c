-- run_attributes: those of the run ?1 whose names are in the JSON array ?2, or all.
SELECT name, value FROM tenure_attributes
WHERE run_id = ?1 AND (?2 IS NULL OR name IN (SELECT value FROM json_each(?2)))
