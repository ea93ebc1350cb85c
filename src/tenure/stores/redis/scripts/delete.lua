-- delete: remove these jobs, all or none, and with a step its run. If a blocked job outside the list waits for one of them, then those go too, and
-- theirs, if `cascade`; else it is refused.
-- Arguments: cascade, refs. Answers: the refs of those that went; if it was refused then for whom, and who waits for it.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, ending, recent, finish

local cascade = Script.arg() == '1'
local going, refs, chosen = {}, {}, {}

-- A job, and behind it the other steps of its run, as far as they have not been chosen yet.
local function with_run(job)
  local found = { job }
  for _, step in ipairs(Runs.all_steps(job)) do
    if step ~= job and not chosen[step.ref] then found[#found + 1] = step end
  end
  return found
end

local function choose(jobs)
  for _, job in ipairs(jobs) do
    chosen[job.ref] = true
    going[#going + 1] = job
  end
end

for _, ref in ipairs(Script.remaining_args()) do
  local job = Jobs.load(ref)
  if job and not chosen[job.ref] then choose(with_run(job)) end
end
for next = 1, math.huge do
  local job = going[next]
  if not job then break end
  local others = {}
  for _, dependent in ipairs(Ending.blocked_dependents(job)) do
    if not chosen[dependent.ref] then
      if cascade then
        choose(with_run(dependent))
      else
        for _, each in ipairs(with_run(dependent)) do others[#others + 1] = each.ref end
      end
    end
  end
  if #others > 0 then return { {}, job.ref, others } end
end
for i, job in ipairs(going) do refs[i] = job.ref end
Ending.delete_all(going)
return Script.finish({ refs })
