-- retry: put each final job at the back again, attempt and losses 0, the fence going on; blocked if an edge of it is open.
-- Refused if it is not final, if it has handed over, if its unique key is held by another, or if the blocker of an open edge is
-- gone.
-- Arguments: refs.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, history, operating, recent, done

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

-- Those of these jobs that a unique key is for; nil, and the first other that holds one.
local function keyed(jobs)
  local found = {}
  for _, job in ipairs(jobs) do
    local window = Unique.window_end(job)
    if job.options.unique and not (window and window <= Step.now) then
      local holder = Unique.holder_of(job.task, job.options.unique)
      if holder and holder ~= job.ref then return nil, holder end
      found[#found + 1] = job
    end
  end
  return found
end

return Step.done(Operating.on_each(function(job)
  if not Jobs.final(job.state) then return { Operating.REFUSED, 'not final', job.state } end
  if job.successor then return { Operating.REFUSED, 'handed over', job.state, job.successor } end
  local blockers, gone = open_blockers(job)
  if not blockers then return { Operating.REFUSED, 'gone', job.state, gone } end
  -- With the last step of a run its first is open again, which stands for the run.
  local reopened = Runs.over(job)
  local holders, other = keyed(reopened)
  if not holders then return { Operating.REFUSED, 'unique', job.state, other } end
  for _, each in ipairs(holders) do Unique.hold(each) end
  -- Who succeeded by a settle has its token still.
  if job.state == is.succeeded and job.nonce ~= no_nonce and not History.has_latest(job) then History.enter(job, 'succeeded') end
  Jobs.take(job)
  job.state, job.attempt, job.losses, job.misses = is.blocked, 0, 0, 0
  job.nonce, job.ended, job.result = no_nonce, nil, nil
  Jobs.set(job, flag.unexpiring, true)
  for _, each in ipairs(reopened) do
    Jobs.set(each, flag.awaited, false)
    each.changed = true
  end
  Jobs.put(job)
  if #blockers == 0 then Jobs.join(job) end
  return Operating.OK
end))
