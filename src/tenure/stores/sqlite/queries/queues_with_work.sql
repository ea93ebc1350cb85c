-- queues_with_work: queues that are not paused and have jobs in line, or that may have inbox entries; and whether they may have
-- entries.
SELECT name, inbox FROM tenure_queues WHERE (paused = 0 AND waiting > 0) OR inbox
