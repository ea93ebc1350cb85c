-- list_schedules: up to ?2 schedules whose names come after ?1, by name. schedules.py knows the order of the columns.
SELECT name, settings, version, next, active, tick, last, seen_at, history FROM tenure_schedules
WHERE name > ?1 ORDER BY name LIMIT ?2
