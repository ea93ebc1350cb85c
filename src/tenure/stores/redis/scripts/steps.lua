-- steps: one page of the steps of a run, in order. Reads only.
-- ARGV: time, ref of the run, limit; then the ref of the step to begin with, unless it is the first.
-- Returns: steps as `Reading.describe` gives them, ref of the next step (false at the end).
-- include: script, totals, jobs, flows, runs, edges, reading

local run, limit, from = Script.arg(), tonumber(Script.arg()), Script.arg()
local steps, first = {}, Jobs.load(run)
local step = first and Runs.begins(first) and Jobs.load(from or run)
if step and Runs.of(step) ~= run then step = false end
while step and #steps < limit do
  local stored, record = redis.call('HGET', Key.jobs, step.ref), redis.call('HGET', Key.records, step.ref)
  steps[#steps + 1] = Reading.describe(step.ref, stored, record)
  step = step.successor and Jobs.load(step.successor)
end
return { steps, step and step.ref or false }
