-- cancel: end each job as cancelled, in whatever state it is; refused if it is final. A holder is told and loses its token.
-- Arguments: refs.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, history, ending, operating, recent, done

return Step.done(Operating.on_each(function(job)
  if Jobs.final(job.state) then return { Operating.REFUSED, 'final', job.state } end
  if job.state == is.running then History.enter(job, 'cancelled') end
  Ending.revoke(job, 'cancelled')
  Ending.finish_whole(job, is.cancelled)
  return Operating.OK
end))
