-- lease: hand out up to so many due jobs, each under a token nobody has held before. Promotes due jobs first, cancels those
-- that have expired, passes paused queues over.
-- Arguments and answers: as `Leasing.lease` says.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, ending, leasing, recent, finish

return Script.finish(Leasing.lease())
