-- trigger: put each scheduled job at the back of the line now; refused if it is not scheduled.
-- Arguments: refs.
-- include: script, write_when_full, totals, jobs, flows, runs, operators, recent, finish

return Script.finish(Operators.on_each(function(job)
  if job.state ~= is.waiting or not job.run_at then return { Code.REFUSED, Refused.NOT_SCHEDULED, job.state } end
  Jobs.enter_line(job)
  return Code.OK
end))
