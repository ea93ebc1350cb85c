-- lease: hand out up to so many due jobs, each under a token nobody has held before. Promotes due jobs first, cancels those
-- that have expired, passes paused queues over.
-- Arguments and answers: as `Leasing.lease` says.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, ending, leasing, recent, done

return Step.done(Leasing.lease())
