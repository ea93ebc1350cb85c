-- queues_with_work: queues that are not paused and have jobs in line.
SELECT name FROM tenure_queues WHERE paused = 0 AND waiting > 0
