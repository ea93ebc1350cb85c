-- write_attributes: set attributes of runs, replacing the values they had. The caller repeats the group of values.
INSERT INTO tenure_attributes (run_id, name, value) VALUES (?, ?, ?)
ON CONFLICT (run_id, name) DO UPDATE SET value = excluded.value
