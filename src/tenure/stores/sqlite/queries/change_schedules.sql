-- change_schedules: give schedules other settings, and a new seen_at where it is not NULL. The caller repeats the group of values.
UPDATE tenure_schedules
SET settings = given.column2, version = version + 1, next = given.column3, active = given.column4,
    seen_at = coalesce(given.column5, seen_at)
FROM (VALUES (?, ?, ?, ?, ?)) AS given WHERE name = given.column1
