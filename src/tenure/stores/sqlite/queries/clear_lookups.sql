-- clear_lookups: runs cannot be found by these names any more. The JSON array ?1 has run and name of each.
DELETE FROM tenure_lookups
WHERE (run_id, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
