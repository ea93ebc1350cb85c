-- run_attributes: the attributes of the run ?1 whose names are in the JSON array ?2, or all of them if ?2 is NULL.
SELECT name, value FROM tenure_attributes
WHERE run_id = ?1 AND (?2 IS NULL OR name IN (SELECT value FROM json_each(?2)))
