-- queues_with_work: queues that have jobs in line and are not paused, or something in their inbox; and whether it is the latter.
SELECT name, inbox FROM tenure_queues WHERE (paused = 0 AND waiting > 0) OR inbox
