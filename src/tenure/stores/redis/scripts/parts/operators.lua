-- Operators' actions: cancels a job, and runs any action on each of several jobs.

local Operators = {}

-- Call `act` with the job of each remaining argument; the ref of a run means its current step. Returns one verdict each: a
-- `Code`, or { Code.REFUSED, word of `Refused`, state, ref of the job in the way }.
function Operators.on_each(act)
  local refs, verdicts = Script.remaining_args(), {}
  Jobs.load_all(refs)
  for i, ref in ipairs(refs) do
    local job = Runs.current_step_of(ref)
    verdicts[i] = job and act(job) or Code.NOT_FOUND
  end
  return verdicts
end

-- End a job as cancelled, and propagate that to its dependents. Returns a verdict.
function Operators.cancel(job)
  if Jobs.final(job.state) then return { Code.REFUSED, Refused.FINAL, job.state } end
  if job.state == is.running then History.add(job, 'cancelled') end
  Ending.revoke(job, 'cancelled')
  Ending.finish_and_propagate(job, is.cancelled)
  return Code.OK
end
