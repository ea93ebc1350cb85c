-- retry: put each final job at the back again, attempt and losses 0, the fence going on; blocked if an edge of it is open.
-- Refused if it is not final, if it has handed over, if its unique key is held by another, or if the blocker of an open edge is
-- gone.
-- Arguments: refs.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, operators, recent, finish

-- The refs of those that a job still waits for; nil, and the first that is gone.
local function open_blockers(job)
  local found = {}
  for _, edge in ipairs(Edges.values_of(job)) do
    local blocker = Edges.blocker_of(edge)
    if blocker and not Jobs.load(blocker) then return nil, blocker end
    if blocker then found[#found + 1] = blocker end
  end
  return found
end

-- Those of these jobs that a unique key is for; nil, and the first other that holds one.
local function claimable_keys(jobs)
  local found = {}
  for _, job in ipairs(jobs) do
    local window = Unique.window_end(job)
    if job.options.unique and not (window and window <= Script.now) then
      local owner = Unique.owner_of(job.task, job.options.unique)
      if owner and owner ~= job.ref then return nil, owner end
      found[#found + 1] = job
    end
  end
  return found
end

return Script.finish(Operators.on_each(function(job)
  if not Jobs.final(job.state) then return { Code.REFUSED, Refused.NOT_FINAL, job.state } end
  if job.successor then return { Code.REFUSED, Refused.HANDED_OVER, job.state, job.successor } end
  local blockers, gone = open_blockers(job)
  if not blockers then return { Code.REFUSED, Refused.BLOCKER_GONE, job.state, gone } end
  -- With the last step of a run its first is open again, which stands for the run.
  local reopened = Runs.ended_with(job)
  local with_key, other = claimable_keys(reopened)
  if not with_key then return { Code.REFUSED, Refused.UNIQUE, job.state, other } end
  for _, each in ipairs(with_key) do Unique.claim(each) end
  -- Who succeeded by a settle has its token still.
  if job.state == is.succeeded and job.nonce ~= no_nonce and not History.has_latest(job) then History.add(job, 'succeeded') end
  Jobs.remove_from_indexes(job)
  job.state, job.attempt, job.losses, job.misses = is.blocked, 0, 0, 0
  job.nonce, job.ended, job.result = no_nonce, nil, nil
  Jobs.set(job, flag.unexpiring, true)
  for _, each in ipairs(reopened) do
    Jobs.set(each, flag.awaited, false)
    each.changed = true
  end
  Jobs.add_to_indexes(job)
  if #blockers == 0 then Jobs.enter_line(job) end
  return Code.OK
end))
