-- write_measures: write rows of slots, replacing those that have the same names. The caller repeats the group of values.
INSERT INTO tenure_measures (resolution, slot, queue, task, counts, gauges) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (resolution, slot, queue, task) DO UPDATE SET counts = excluded.counts, gauges = excluded.gauges
