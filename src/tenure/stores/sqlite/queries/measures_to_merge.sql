-- measures_to_merge: the rows of the slots in ?1 with the names in ?2, as one JSON array. ?1 is a JSON array of [resolution,
-- slot], ?2 of [queue, task]. A row begins with the index of its slot in ?1. It includes no REAL, because SQLite does not
-- write every one to JSON exactly.
SELECT json_group_array(json_array(current.key, m.queue, m.task, m.counts, m.gauges))
FROM json_each(?1) AS current CROSS JOIN json_each(?2) AS wanted CROSS JOIN tenure_measures AS m
  ON m.resolution = current.value ->> 0 AND m.slot = current.value ->> 1
  AND m.queue = wanted.value ->> 0 AND m.task = wanted.value ->> 1
