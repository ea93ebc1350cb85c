-- open_queues: those of the queues in the JSON array ?1 that are not paused and have something in line or scheduled,
-- in the order of the array.
SELECT q.name, q.waiting, q.scheduled
FROM json_each(?1) AS wanted JOIN tenure_queues AS q ON q.name = wanted.value
WHERE q.paused = 0 AND (q.waiting > 0 OR q.scheduled > 0)
ORDER BY wanted.key
