-- reap: take up to so many jobs of these queues from holders whose lease has expired, the longest expired first; if that was
-- not so many, fail parked jobs whose time is over.
-- Arguments: limit, and the queues. Answers: of each job that was taken ref, queue, task, worker, losses, whether it failed.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, lost_jobs, reaping, recent, finish

return Script.finish(Reaping.reap())
