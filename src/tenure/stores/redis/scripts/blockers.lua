-- blockers: the jobs that a blocked job still waits for, in the order in which it names them. Reads only.
-- ARGV: time, ref of the job, limit.
-- Returns: up to `limit` refs; none if the job is not blocked.
-- include: script, totals, jobs, edges

local job, limit, found = Jobs.load(Script.arg()), tonumber(Script.arg()), {}
for _, edge in ipairs(job and job.state == is.blocked and Edges.values_of(job) or {}) do
  local blocker = Edges.blocker_of(edge)
  if blocker and #found < limit then found[#found + 1] = blocker end
end
return found
