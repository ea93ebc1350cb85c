-- trigger: put each scheduled job at the back of the line now; refused if it is not scheduled.
-- Arguments: refs.
-- include: step, draining, totals, jobs, flows, runs, operating, recent, done

return Step.done(Operating.on_each(function(job)
  if job.state ~= is.waiting or not job.run_at then return { Operating.REFUSED, 'not scheduled', job.state } end
  Jobs.join(job)
  return Operating.OK
end))
