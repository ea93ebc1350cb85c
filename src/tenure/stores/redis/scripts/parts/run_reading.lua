-- What is told of a run.

local RunReading = {}

-- Its ref, flow, time of enqueueing, the queue of the step before the current one, and that step as `describe` does; false if
-- there is none.
function RunReading.describe(run)
  local first = Jobs.load(run)
  if not first or not first.options.flow or first.options.run then return false end
  local current, before = Flows.current(run)
  -- A program of the layout before may have taken that for a job and removed it: the run shows, to be deleted.
  if not Jobs.load(current) then
    local left = Runs.all_steps(first)
    current = left[#left].ref
  end
  local step = Reading.describe(current, redis.call('HGET', Key.jobs, current), redis.call('HGET', Key.records, current))
  return { run, first.options.flow, string.format('%.17g', first.created), before or false, step }
end
