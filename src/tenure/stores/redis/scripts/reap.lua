-- reap: take up to `limit` jobs from holders whose lease has expired. If there are fewer, also end parkings that have timed
-- out.
-- ARGV: time, limit, queues.
-- Returns: for each job taken { ref, queue, task, worker, losses, 1 if it failed }.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, lost_jobs, reaping, recent, finish

return Script.finish(Reaping.reap())
