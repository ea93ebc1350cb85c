-- complete: end a job as succeeded, in whatever state it is, with all that this success brings; refused if it is final. This very
-- job, though its id may be a run's. A holder is told and loses its token.
-- Arguments: a ref, and a step with what comes with it. Answers: as those of `cancel`, or as `settle` if it is refused for what
-- was to come.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, new_jobs, enqueueing, settlements, hand_overs, edge_batch, settling, operators, recent, finish

local ref, transition = Script.arg(), Script.arg()
local coming, job = Settlements.read_new_jobs(transition), Jobs.load(ref)
if not job then return Code.NOT_FOUND end
if Jobs.final(job.state) then return { Code.REFUSED, Refused.FINAL, job.state } end
return Script.finish(Singly.finish(job, transition, coming, true))
