-- complete: end a job as succeeded, in whatever state it is, with all that this success brings; refused if it is final. This very
-- job, though its id may be a run's. A holder is told and loses its token.
-- Arguments: a ref, and a step with what comes with it. Answers: as those of `cancel`, or as `settle` if it is refused for what
-- was to come.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, history, ending, adding, enqueueing, settlements, handing, closing, settling, operating, recent, done

local ref, step = Step.arg(), Step.arg()
local coming, job = Settlements.read_coming(step), Jobs.load(ref)
if not job then return Operating.NOT_FOUND end
if Jobs.final(job.state) then return { Operating.REFUSED, 'final', job.state } end
return Step.done(Singly.finish(job, step, coming, true))
