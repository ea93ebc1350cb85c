-- cancel: end each job as cancelled, whatever its state, and propagate that to its dependents. A job that is final is
-- refused. A worker that holds the job is notified and its token ends. All jobs are handled in one atomic script.
-- ARGV: time, refs. The ref of a run means its current step.
-- Returns: one verdict each, see `parts/operators.lua`.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, operators, recent, finish

return Script.finish(Operators.on_each(Operators.cancel))
