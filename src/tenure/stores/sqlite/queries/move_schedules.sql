-- move_schedules: move schedules to their next ticks after a firing. The caller repeats the group of values.
UPDATE tenure_schedules
SET version = version + 1, next = given.column2, tick = given.column3, last = given.column4, history = given.column5
FROM (VALUES (?, ?, ?, ?, ?)) AS given WHERE name = given.column1
