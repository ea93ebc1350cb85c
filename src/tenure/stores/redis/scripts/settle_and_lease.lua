-- settle_and_lease: settle, then lease, in one step. Arguments and answers: of the one, then of the other.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, new_jobs, enqueueing, settlements, hand_overs, edge_batch, settling, leasing, recent, finish

local verdicts = Settling.settle()
-- Before the lease: what it takes at once is no reason to wake anybody.
Script.wake_workers()
return Script.finish({ verdicts, Leasing.lease() })
