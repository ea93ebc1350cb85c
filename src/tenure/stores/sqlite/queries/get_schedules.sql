-- get_schedules: the schedules with the names in the JSON array ?1. schedules.py knows the order of the columns.
SELECT s.name, s.settings, s.version, s.next, s.active, s.tick, s.last, s.seen_at, s.history
FROM json_each(?1) AS wanted JOIN tenure_schedules AS s ON s.name = wanted.value
