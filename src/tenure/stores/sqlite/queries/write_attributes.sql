-- write_attributes: runs have these attributes, whatever they had under these names. The caller repeats the group of values.
INSERT INTO tenure_attributes (run_id, name, value) VALUES (?, ?, ?)
ON CONFLICT (run_id, name) DO UPDATE SET value = excluded.value
