-- Runs: jobs that are steps of one.

local Runs = lazy(function(Runs)

-- The ref of the run that a job is a step of; nil if it is none.
function Runs.of(job)
  return job.options.flow and (job.options.run or job.ref)
end

function Runs.begins(job)
  return job.options.flow and not job.options.run
end

-- The first step of a job's run.
function Runs.first(job)
  return Jobs.load(Runs.of(job))
end

-- The job that a ref means: a run's, its current step.
function Runs.current_step_of(ref)
  local job = Jobs.load(ref)
  if job and job.successor and Runs.begins(job) then return Jobs.load((Flows.current(ref))) or job end
  return job
end

-- What goes when a job goes: the steps of its run as they came, or itself.
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

-- Which jobs' dependents, waiters and keys it is time for once a job is final. A run's first step stands for the run: not
-- before that has ended is it over, and then with the last.
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
