-- delete_lookups: delete all lookup values of the runs in the JSON array ?1.
DELETE FROM tenure_lookups WHERE run_id IN (SELECT value FROM json_each(?1))
