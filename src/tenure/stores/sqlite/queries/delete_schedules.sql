-- delete_schedules: delete the schedules with the names in the JSON array ?1.
DELETE FROM tenure_schedules WHERE name IN (SELECT value FROM json_each(?1))
