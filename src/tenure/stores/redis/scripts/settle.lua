-- settle: apply the transition of each job and give up its lease, both or neither. A settlement whose token is no longer
-- valid changes nothing. The whole call is one atomic script.
-- ARGV: time, then as `Settlements.read` reads them.
-- Returns: one verdict each: a `Code`, or { Code.REFUSED, word of `Refused`, index of the new job, ref or attribute name }
-- if its children or its successor cannot be enqueued.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, new_jobs, enqueueing, settlements, hand_overs, edge_batch, settling, recent, finish

return Script.finish(Settling.settle())
