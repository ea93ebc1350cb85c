-- Runs an operator's action on each of several jobs.

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
