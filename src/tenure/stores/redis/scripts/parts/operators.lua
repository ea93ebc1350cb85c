-- What operators do to jobs, one by one: 0 if it was done, 2 if there is no such job, or why it is refused:
-- {3, reason, state, who is in the way}.

local Operators = {}

-- Act on each job of the arguments that are left; the id of a run means its current step.
function Operators.on_each(act)
  local refs, verdicts = Script.remaining_args(), {}
  Jobs.load_all(refs)
  for i, ref in ipairs(refs) do
    local job = Runs.current_step_of(ref)
    verdicts[i] = job and act(job) or Code.NOT_FOUND
  end
  return verdicts
end
