-- delete_lookups: the runs in the JSON array ?1 are gone.
DELETE FROM tenure_lookups WHERE run_id IN (SELECT value FROM json_each(?1))
