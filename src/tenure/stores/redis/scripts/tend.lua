-- tend: reap, and the names of all queues.
-- Arguments: as those of `reap`. Answers: what `reap` does, and the names.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, history, ending, losing, reaping, recent, done

return Step.done({ Reaping.reap(), redis.call('SMEMBERS', Key.queues) })
