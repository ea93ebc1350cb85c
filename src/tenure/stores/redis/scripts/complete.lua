-- complete: end one job as succeeded from outside, whatever its state, and add the jobs that come with it: both or neither.
-- A final job is refused. A worker that holds the job is notified and its token ends. The ref means this job, even if it is
-- a run's.
-- ARGV: time, ref, transition, then its details as `Settlements.read_details` reads them.
-- Returns: one verdict as `cancel` gives, or as `settle` gives if the new jobs are refused.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, new_jobs, enqueueing, settlements, hand_overs, edge_batch, settling, operators, recent, finish

local ref, transition = Script.arg(), Script.arg()
local details, job = Settlements.read_details(transition), Jobs.load(ref)
if not job then return Code.NOT_FOUND end
if Jobs.final(job.state) then return { Code.REFUSED, Refused.FINAL, job.state } end
return Script.finish(Singly.finish(job, transition, details, true))
