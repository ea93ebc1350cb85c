-- complete: end a job as succeeded with this result, in whatever state it is; refused if it is final. A holder is told and
-- loses its token.
-- Arguments: the result, a ref.
-- include: step, draining, totals, jobs, unique, edges, ending, operating, recent, done

local result = Step.arg()
return Step.done(Operating.on_each(function(job)
  if Jobs.final(job.state) then return { Operating.REFUSED, 'final', job.state } end
  Ending.revoke(job, 'completed')
  Ending.finish_whole(job, is.succeeded, result)
  return Operating.OK
end))
