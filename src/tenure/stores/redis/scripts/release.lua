-- release: take each running job from its holder, notify the holder, and put the job back in its place; refused if it is not running.
-- The attempt is given back.
-- Arguments: refs.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, history, ending, operating, recent, done

return Step.done(Operating.on_each(function(job)
  if job.state ~= is.running then return { Operating.REFUSED, 'not running', job.state } end
  Ending.revoke(job, 'taken')
  Jobs.take(job)
  job.state, job.attempt, job.result = is.waiting, job.attempt - 1, nil
  Jobs.put(job)
  Step.wake(job.queue)
  return Operating.OK
end))
