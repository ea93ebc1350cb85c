-- Runs and their steps. The first step stands for the run: its ref is the run's.

local Runs = lazy(function(Runs)

-- The ref of the run that a job is a step of; nil if it is not a step.
function Runs.of(job)
  return job.options.flow and (job.options.run or job.ref)
end

function Runs.begins(job)
  return job.options.flow and not job.options.run
end

function Runs.first(job)
  return Jobs.load(Runs.of(job))
end

-- The job of a ref; if that is a run that has handed over, its current step.
function Runs.current_step_of(ref)
  local job = Jobs.load(ref)
  if job and job.successor and Runs.begins(job) then return Jobs.load((Flows.current(ref))) or job end
  return job
end

-- All steps of the job's run, in order; only the job itself if it is not a step.
function Runs.all_steps(job)
  if not job.options.flow then return { job } end
  local found, ref, itself = {}, Runs.of(job), false
  while ref do
    local step = Jobs.load(ref)
    if not step then break end
    found[#found + 1] = step
    itself = itself or step == job
    ref = step.successor
  end
  if not itself then found[#found + 1] = job end
  return found
end

-- The jobs whose dependents, waiters and unique keys are released when a job becomes final. The first step of a run stands
-- for the run, so it is released with the last step.
function Runs.ended_with(job)
  if not job.options.flow then return { job } end
  if Runs.begins(job) then return job.successor and {} or { job } end
  return { job, not job.successor and Runs.first(job) or nil }
end

function Runs.write(job, writes)
  local first = Runs.first(job)
  if first then Flows.write(first.ref, first.options.flow, struct.unpack('>I6', first.number), writes) end
end

end)
