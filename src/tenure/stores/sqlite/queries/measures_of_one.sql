-- measures_of_one: the rows of the queue ?4 and the task ?5, of the slots of the resolution ?1 that begin at ?2 or later and
-- before ?3, by slot. Two index lookups for each slot instead of a scan of its rows.
WITH RECURSIVE found (slot) AS (
    SELECT min(slot) FROM tenure_measures WHERE resolution = ?1 AND slot >= ?2
    UNION ALL
    SELECT (SELECT min(slot) FROM tenure_measures WHERE resolution = ?1 AND slot > found.slot) FROM found WHERE found.slot < ?3
)
SELECT m.slot, m.queue, m.task, m.counts, m.gauges
FROM found CROSS JOIN tenure_measures AS m
  ON m.resolution = ?1 AND m.slot = found.slot AND m.queue = ?4 AND m.task = ?5
WHERE found.slot < ?3
ORDER BY m.slot
