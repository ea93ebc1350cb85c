-- schedule_versions: the versions of the schedules with the names in the JSON array ?1, as one JSON array of [name, version].
SELECT json_group_array(json_array(s.name, s.version))
FROM json_each(?1) AS wanted JOIN tenure_schedules AS s ON s.name = wanted.value
