-- retry: put each final job at the back again, attempt and losses 0, the fence going on; blocked if an edge of it is open.
-- Refused if it is not final, if its unique key is held by another, or if the blocker of an open edge is gone.
-- Arguments: refs.
-- include: step, draining, totals, jobs, unique, edges, operating, recent, done

-- The refs of those that a job still waits for; nil, and the first that is gone.
local function open_blockers(job)
  local found = {}
  for _, edge in ipairs(Edges.of(job)) do
    local blocker = Edges.blocker_of(edge)
    if blocker and not Jobs.load(blocker) then return nil, blocker end
    if blocker then found[#found + 1] = blocker end
  end
  return found
end

return Step.done(Operating.on_each(function(job)
  if not Jobs.final(job.state) then return { Operating.REFUSED, 'not final', job.state } end
  local blockers, gone = open_blockers(job)
  if not blockers then return { Operating.REFUSED, 'gone', job.state, gone } end
  local window = Unique.window_end(job)
  if job.options.unique and not (window and window <= Step.now) then
    local holder = Unique.holder_of(job.task, job.options.unique)
    if holder and holder ~= job.ref then return { Operating.REFUSED, 'unique', job.state, holder } end
    Unique.hold(job)
  end
  Jobs.take(job)
  job.state, job.attempt, job.losses, job.misses = is.blocked, 0, 0, 0
  job.nonce, job.ended, job.result = no_nonce, nil, nil
  Jobs.set(job, flag.unexpiring, true)
  Jobs.set(job, flag.awaited, false)
  Jobs.put(job)
  if #blockers == 0 then Jobs.join(job) end
  return Operating.OK
end))
