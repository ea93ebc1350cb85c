-- lease: lease up to `limit` due jobs to a worker, each under a new token. First cancels expired jobs and moves scheduled
-- jobs that are due to the line. Skips paused queues. All of it is one atomic script: no job is leased twice.
-- ARGV and reply: see `Leasing.lease`.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, ending, leasing, recent, finish

return Script.finish(Leasing.lease())
