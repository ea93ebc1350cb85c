-- measures_of_queues: the rows of every queue, without tasks, of the slots of the resolution ?1 that begin at ?2 or later and
-- before ?3, by slot and queue.
SELECT slot, queue, task, counts, gauges FROM tenure_measures
WHERE resolution = ?1 AND slot >= ?2 AND slot < ?3 AND queue <> '' AND task = ''
ORDER BY slot, queue
