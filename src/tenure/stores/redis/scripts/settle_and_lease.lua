-- settle_and_lease: settle, then lease, in one step. Arguments and answers: of the one, then of the other.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, history, ending, adding, enqueueing, settlements, handing, closing, settling, leasing, recent, done

local verdicts = Settling.settle()
-- Before the lease: what it takes at once is no reason to wake anybody.
Step.wake_workers()
return Step.done({ verdicts, Leasing.lease() })
