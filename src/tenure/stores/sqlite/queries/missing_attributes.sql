-- missing_attributes: the places in the JSON array ?1 (run, name) of attributes that the run does not have.
SELECT wanted.key FROM json_each(?1) AS wanted
WHERE NOT EXISTS (SELECT 1 FROM tenure_attributes WHERE run_id = wanted.value ->> 0 AND name = wanted.value ->> 1)
ORDER BY wanted.key
