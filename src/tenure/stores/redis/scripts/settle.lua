-- settle: apply each step and give up its lease, both or neither; one verdict each: 0 ok, 1 lease lost, 2 not found, or
-- {3, kind, index of the child, ref} if its children cannot be enqueued.
-- Arguments: as `Settling.read` reads them.
-- include: step, draining, totals, jobs, unique, edges, ending, adding, enqueueing, settling, recent, done

return Step.done(Settling.settle())
