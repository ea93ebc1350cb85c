-- cancel: end each job as cancelled, in whatever state it is; refused if it is final. A holder is told and loses its token.
-- Arguments: refs.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, operators, recent, finish

return Script.finish(Operators.on_each(function(job)
  if Jobs.final(job.state) then return { Code.REFUSED, Refused.FINAL, job.state } end
  if job.state == is.running then History.add(job, 'cancelled') end
  Ending.revoke(job, 'cancelled')
  Ending.finish_and_propagate(job, is.cancelled)
  return Code.OK
end))
