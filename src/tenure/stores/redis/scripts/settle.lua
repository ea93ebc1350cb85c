-- settle: apply each step and give up its lease, both or neither; one verdict each: 0 ok, 1 lease lost, 2 not found, or
-- {3, kind, index of the job, ref or name} if its children or its successor cannot be enqueued.
-- Arguments: as `Settlements.read` reads them.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, new_jobs, enqueueing, settlements, hand_overs, edge_batch, settling, recent, finish

return Script.finish(Settling.settle())
