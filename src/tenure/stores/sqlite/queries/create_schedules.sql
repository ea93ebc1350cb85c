-- create_schedules: insert schedules that do not exist. The caller repeats the group of values.
INSERT INTO tenure_schedules (name, settings, version, next, active, seen_at) VALUES (?, ?, ?, ?, ?, ?)
