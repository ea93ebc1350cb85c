-- ended_columns: the columns of `ended` that a job gets when it ends.
n, queue, task, state, ended_at, keep_until, seq, attempt, losses, fence, misses, expires_at, worker, nonce, started_at, result,
error, successor, attempts, ready_at
