-- trigger: put each scheduled job at the back of the line now. A job that is not scheduled is refused.
-- ARGV: time, refs. The ref of a run means its current step.
-- Returns: one verdict each, see `parts/operators.lua`.
-- include: script, write_when_full, totals, jobs, flows, runs, operators, recent, finish

return Script.finish(Operators.on_each(function(job)
  if job.state ~= is.waiting or not job.run_at then return { Code.REFUSED, Refused.NOT_SCHEDULED, job.state } end
  Jobs.enter_line(job)
  return Code.OK
end))
