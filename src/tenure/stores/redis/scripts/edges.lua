-- edges: what a job was told to wait for, in the order in which it names them. Reads only.
-- ARGV: time, ref of the job, limit.
-- Returns: for each of the first `limit` edges the ref of its blocker (false if a program of an earlier version has closed
-- the edge, which did not remember it) and 1 if it is open, 0 if it is closed.
-- include: script, totals, jobs, edges

local job, limit, found = Jobs.load(Script.arg()), tonumber(Script.arg()), {}
if not job or not job.options.edges then return found end
local blockers = Edges.blockers_of(job) or {}
for position, edge in ipairs(Edges.values_of(job, limit)) do
  local open = Edges.blocker_of(edge)
  local blocker = blockers[position] or open
  found[position] = { blocker and blocker ~= '' and blocker, open and 1 or 0 }
end
return found
