-- pause_queue: pause the queue ?1, which need not exist yet; changes nothing if it is paused.
INSERT INTO tenure_queues (name, paused) VALUES (?1, 1) ON CONFLICT (name) DO UPDATE SET paused = 1 WHERE paused = 0
