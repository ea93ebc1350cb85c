-- missing_attributes: the indexes in ?1 of attributes that their run does not have. ?1 is a JSON array of [run, name, ...].
SELECT wanted.key FROM json_each(?1) AS wanted
WHERE NOT EXISTS (SELECT 1 FROM tenure_attributes WHERE run_id = wanted.value ->> 0 AND name = wanted.value ->> 1)
ORDER BY wanted.key
