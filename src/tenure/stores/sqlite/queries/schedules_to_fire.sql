-- schedules_to_fire: the columns that a firing needs, of the schedules with the names in the JSON array ?1, as one JSON array. They
-- include no REAL, because SQLite does not write every one to JSON exactly.
SELECT json_group_array(json_array(s.name, s.version, s.last, s.history))
FROM json_each(?1) AS wanted JOIN tenure_schedules AS s ON s.name = wanted.value
