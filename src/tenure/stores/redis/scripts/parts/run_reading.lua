-- Describes runs to the caller.

local RunReading = {}

-- One run: { ref, flow, time of enqueueing, queue of the step before the current one, the current step as
-- `Reading.describe` gives it }; false if there is no such run.
function RunReading.describe(run)
  local first = Jobs.load(run)
  if not first or not first.options.flow or first.options.run then return false end
  local current, before = Flows.current(run)
  -- A program of an earlier layout may have removed the current step as an ordinary job. The run still shows, so that it
  -- can be deleted.
  if not Jobs.load(current) then
    local left = Runs.all_steps(first)
    current = left[#left].ref
  end
  local step = Reading.describe(current, redis.call('HGET', Key.jobs, current), redis.call('HGET', Key.records, current))
  return { run, first.options.flow, string.format('%.17g', first.created), before or false, step }
end
