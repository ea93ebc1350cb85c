-- release: take each running job from its holder, notify the holder, and put the job back in line at its old position. The
-- attempt does not count. A job that is not running is refused.
-- ARGV: time, refs. The ref of a run means its current step.
-- Returns: one verdict each, see `parts/operators.lua`.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, operators, recent, finish

return Script.finish(Operators.on_each(function(job)
  if job.state ~= is.running then return { Code.REFUSED, Refused.NOT_RUNNING, job.state } end
  Ending.revoke(job, 'taken')
  Jobs.remove_from_indexes(job)
  job.state, job.attempt, job.result = is.waiting, job.attempt - 1, nil
  Jobs.add_to_indexes(job)
  Script.add_new_work(job.queue)
  return Code.OK
end))
