-- enqueue: store all of these jobs, or none of them and say which one stands in the way.
-- Arguments: how many; then each as `NewJobs.read` reads it.
-- Answers: a refusal {kind, index, ref or name}; else what differs from a new job that waits: {index, state, the owner's ref if it
-- is a duplicate}, for each.
-- include: script, flows, new_jobs, recent

local jobs, plain, refs, seen = NewJobs.read_all(tonumber(Script.arg())), true, {}, {}
for i, new in ipairs(jobs) do
  refs[i] = new.ref
  plain = plain and new.head.plain and not new.head.run_at and not new.head.needs and not seen[new.ref]
  seen[new.ref] = true
end
for _, known in ipairs(plain and Script.fields_of(Key.jobs, refs) or {}) do
  plain = plain and not known
end
-- Whether a job came back that is waited for: only the other way knows what to do then.
plain = plain and redis.call('EXISTS', Key.dependents) == 0

if plain then
  NewJobs.store(jobs)
  if Script.to_sweep >= 200 then Recent.sweep() end
  Script.wake_workers()
  return {}
end

-- Behind the return, so that nothing of this is made for an enqueue that needs none of it.
-- include: totals, jobs, runs, unique, edges, ending, enqueueing, finish

local coming, refusal = Enqueueing.plan(jobs)
if not coming then return refusal end
local others = Enqueueing.add_all(coming)
local answers = {}
for i, new in ipairs(jobs) do
  if new.known or Script.loaded[new.ref] then
    answers[#answers + 1] = { i - 1, Runs.current_step_of(new.leads_to).state, new.duplicate and new.leads_to }
  end
end
Ending.remove_unkept(others)
return Script.finish(answers)
