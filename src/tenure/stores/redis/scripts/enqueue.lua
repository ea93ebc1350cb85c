-- enqueue: store all of these jobs, or none of them and say which one stands in the way.
-- Arguments: how many; then each as `Adding.read` reads it.
-- Answers: a refusal {kind, index, ref or name}; else what differs from a new job that waits: {index, state, the holder's ref if it
-- is a duplicate}, for each.
-- include: step, flows, adding, recent

local jobs, plain, refs, seen = Adding.read_all(tonumber(Step.arg())), true, {}, {}
for i, new in ipairs(jobs) do
  refs[i] = new.ref
  plain = plain and new.head.plain and not new.head.run_at and not new.head.needs and not seen[new.ref]
  seen[new.ref] = true
end
for _, known in ipairs(plain and Step.fields_of(Key.jobs, refs) or {}) do
  plain = plain and not known
end
-- Whether a job came back that is waited for: only the other way knows what to do then.
plain = plain and redis.call('EXISTS', Key.dependents) == 0

if plain then
  Adding.store(jobs)
  if Step.to_sweep >= 200 then Recent.sweep() end
  Step.wake_workers()
  return {}
end

-- Behind the return, so that nothing of this is made for an enqueue that needs none of it.
-- include: totals, jobs, runs, unique, edges, ending, enqueueing, done

local coming, refusal = New.plan(jobs)
if not coming then return refusal end
local others = New.add_all(coming)
local answers = {}
for i, new in ipairs(jobs) do
  if new.known or Step.loaded[new.ref] then
    answers[#answers + 1] = { i - 1, Runs.meant(new.leads_to).state, new.duplicate and new.leads_to }
  end
end
Ending.drop_unkept(others)
return Step.done(answers)
