-- enqueue: store all of these jobs, or none of them and say which one stands in the way.
-- Arguments: how many; then of each its ref, what is stored of it, its head, and the refs of those that it waits for.
-- Answers: a refusal {kind, index, ref}; else what differs from a new job that waits: {index, state, the holder's ref if it
-- is a duplicate}, for each.
-- include: step, jobs, unique, edges, ending, enqueueing, done

local jobs = New.read_all(tonumber(Step.arg()))
local coming, refusal = New.plan(jobs)
if not coming then return refusal end
local others = New.add_all(coming)
local answers = {}
for i, new in ipairs(jobs) do
  if new.known or Step.loaded[new.ref] then
    answers[#answers + 1] = { i - 1, Jobs.load(new.leads_to).state, new.duplicate and new.leads_to }
  end
end
Ending.drop_unkept(others)
return Step.done(answers)
