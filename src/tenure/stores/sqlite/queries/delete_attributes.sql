-- delete_attributes: delete all attributes of the runs in the JSON array ?1.
DELETE FROM tenure_attributes WHERE run_id IN (SELECT value FROM json_each(?1))
