-- confirm_schedules: store that the schedules with the names in the JSON array ?1 were seen at ?2.
UPDATE tenure_schedules SET seen_at = ?2 WHERE name IN (SELECT value FROM json_each(?1))
