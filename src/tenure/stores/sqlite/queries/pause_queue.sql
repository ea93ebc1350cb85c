-- pause_queue: pause (?2 = 1) or resume (?2 = 0) the queue ?1; changes nothing if it is so already.
INSERT INTO tenure_queues (name, paused) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused WHERE paused <> excluded.paused
