-- facts_of_steps: the same columns as facts, of every step of the runs in the JSON array ?1, in order of enqueueing.
SELECT j.id, j.task, j.queue, j.state, j.run_at, j.attempt, j.losses, j.max_losses, j.fence, j.nonce, j.unique_key, j.window,
       j.waited, j.blocks, j.keep, j.worker, j.solo, j.blocked_by, j.misses, j.created_at, j.result, j.error, j.n, j.run_id,
       j.successor, j.on_timeout
FROM json_each(?1) AS wanted JOIN tenure_jobs AS j ON j.run_id = wanted.value
ORDER BY wanted.key, j.n
