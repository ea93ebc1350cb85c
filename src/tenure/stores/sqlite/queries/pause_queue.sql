-- pause_queue: pause the queue ?1, creating its row if it has none. Changes nothing if it is paused already.
INSERT INTO tenure_queues (name, paused) VALUES (?1, 1) ON CONFLICT (name) DO UPDATE SET paused = 1 WHERE paused = 0
