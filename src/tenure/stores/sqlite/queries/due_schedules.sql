-- due_schedules: the active schedules whose next tick has come at ?1, the soonest first, then by name: up to ?2 of them after the
-- first ?3. schedules.py knows the order of the columns.
SELECT name, settings, version, next, active, tick, last, seen_at, history FROM tenure_schedules
WHERE active = 1 AND next <= ?1 ORDER BY next, name LIMIT ?2 OFFSET ?3
