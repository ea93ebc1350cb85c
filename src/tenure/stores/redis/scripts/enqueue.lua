-- enqueue: store these jobs, all or none.
-- ARGV: time, number of jobs, then each as `NewJobs.read` reads it.
-- Returns: a refusal { word of `Refused`, index, ref or attribute name }; else one entry for each job that is not simply
-- waiting as new: { index, state, ref of the owner of its unique key if it is a duplicate }. Indexes start at 0.
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
-- A job may come back after its removal while others still wait for it. Only the long way below handles that.
plain = plain and redis.call('EXISTS', Key.dependents) == 0

if plain then
  NewJobs.store(jobs)
  if Script.to_sweep >= 200 then Recent.sweep() end
  Script.wake_workers()
  return {}
end

-- These parts come after the return, so that an enqueue of plain jobs does not pay for building them.
-- include: totals, jobs, runs, unique, edges, ending, enqueueing, finish

local planned, refusal = Enqueueing.plan(jobs)
if not planned then return refusal end
local others = Enqueueing.add_all(planned)
local answers = {}
for i, new in ipairs(jobs) do
  if new.known or Script.loaded[new.ref] then
    answers[#answers + 1] = { i - 1, Runs.current_step_of(new.leads_to).state, new.duplicate and new.leads_to }
  end
end
Ending.remove_unkept(others)
return Script.finish(answers)
