-- paused_queues: the queues of which no job is handed out.
SELECT name FROM tenure_queues WHERE paused = 1
