-- blockers: the refs of what a blocked job still waits for, in their order, up to so many.
-- Arguments: the ref of the job, limit.
-- include: script, totals, jobs, edges

local job, limit, found = Jobs.load(Script.arg()), tonumber(Script.arg()), {}
for _, edge in ipairs(job and job.state == is.blocked and Edges.values_of(job) or {}) do
  local blocker = Edges.blocker_of(edge)
  if blocker and #found < limit then found[#found + 1] = blocker end
end
return found
