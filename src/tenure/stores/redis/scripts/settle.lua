-- settle: apply each step and give up its lease, both or neither; one verdict each: 0 ok, 1 lease lost, 2 not found, or
-- {3, kind, index of the job, ref or name} if its children or its successor cannot be enqueued.
-- Arguments: as `Settlements.read` reads them.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, history, ending, adding, enqueueing, settlements, handing, closing, settling, recent, done

return Step.done(Settling.settle())
