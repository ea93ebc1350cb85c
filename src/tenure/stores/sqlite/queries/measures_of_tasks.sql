-- measures_of_tasks: the rows of every pair of queue and task, of the slots of the resolution ?1 that begin at ?2 or later and
-- before ?3, by slot, queue and task.
SELECT slot, queue, task, counts, gauges FROM tenure_measures
WHERE resolution = ?1 AND slot >= ?2 AND slot < ?3 AND task <> ''
ORDER BY slot, queue, task
