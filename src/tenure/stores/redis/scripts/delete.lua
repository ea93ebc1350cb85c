-- delete: remove these jobs, all or none. If a blocked job outside the list waits for one of them, then those go too, and
-- theirs, if `cascade`; else it is refused.
-- Arguments: cascade, refs. Answers: the refs of those that went; if it was refused then for whom, and who waits for it.
-- include: step, draining, totals, jobs, unique, edges, ending, recent, done

local cascade = Step.arg() == '1'
local going, refs, chosen = {}, {}, {}
for _, ref in ipairs(Step.rest()) do
  local job = Jobs.load(ref)
  if job and not chosen[job.ref] then
    chosen[job.ref] = true
    going[#going + 1] = job
  end
end
for next = 1, math.huge do
  local job = going[next]
  if not job then break end
  local others = {}
  for _, dependent in ipairs(Ending.blocked_on(job)) do
    if not chosen[dependent.ref] then
      if cascade then
        chosen[dependent.ref] = true
        going[#going + 1] = dependent
      else
        others[#others + 1] = dependent.ref
      end
    end
  end
  if #others > 0 then return { {}, job.ref, others } end
end
for i, job in ipairs(going) do refs[i] = job.ref end
Ending.delete_all(going)
return Step.done({ refs })
