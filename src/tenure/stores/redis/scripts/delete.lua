-- delete: remove these jobs, all or none. With a step goes its whole run. If a blocked job that is not in the list waits
-- for one of them, it is removed too, and so on, if `cascade` is 1; otherwise nothing is removed.
-- ARGV: time, cascade (1 or 0), refs.
-- Returns: { refs that were removed }; if refused { {}, ref of the job, refs of the jobs that wait for it }.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, ending, recent, finish

local cascade = Script.arg() == '1'
local to_delete, refs, chosen = {}, {}, {}

-- The job, then the other steps of its run that have not been chosen yet.
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
    to_delete[#to_delete + 1] = job
  end
end

for _, ref in ipairs(Script.remaining_args()) do
  local job = Jobs.load(ref)
  if job and not chosen[job.ref] then choose(with_run(job)) end
end
for next = 1, math.huge do
  local job = to_delete[next]
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
for i, job in ipairs(to_delete) do refs[i] = job.ref end
Ending.delete_all(to_delete)
return Script.finish({ refs })
