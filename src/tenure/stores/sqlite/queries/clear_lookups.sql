-- clear_lookups: delete all lookup values of these runs under these names. ?1 is a JSON array of [run, name, ...].
DELETE FROM tenure_lookups
WHERE (run_id, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
