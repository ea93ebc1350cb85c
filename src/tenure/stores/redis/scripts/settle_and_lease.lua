-- settle_and_lease: settle, then lease, in one atomic script.
-- ARGV: time, the arguments of `settle`, the arguments of `lease`.
-- Returns: { reply of `settle`, reply of `lease` }.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, new_jobs, enqueueing, settlements, hand_overs, edge_batch, settling, leasing, recent, finish

local verdicts = Settling.settle()
-- Before the lease, which removes the markers of a line that it empties: no worker is woken for jobs that this caller takes
-- now.
Script.wake_workers()
return Script.finish({ verdicts, Leasing.lease() })
