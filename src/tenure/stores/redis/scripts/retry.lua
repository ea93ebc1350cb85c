-- retry: put each final job at the back of the line, or block it if one of its edges is open. Attempts, losses and misses
-- restart at 0; the fence goes on, so that old tokens stay invalid. Refused if the job is not final, has handed over, its
-- unique key has another owner, or the blocker of an open edge is gone.
-- ARGV: time, refs. The ref of a run means its current step.
-- Returns: one verdict each, see `parts/operators.lua`.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, operators, recent, finish

-- The refs of the blockers of a job's open edges; nil and the first one that is gone.
local function open_blockers(job)
  local found = {}
  for _, edge in ipairs(Edges.values_of(job)) do
    local blocker = Edges.blocker_of(edge)
    if blocker and not Jobs.load(blocker) then return nil, blocker end
    if blocker then found[#found + 1] = blocker end
  end
  return found
end

-- The jobs that claim a unique key again; nil and the ref of the first other owner.
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
  -- Retrying the last step of a run reopens the first one too, which stands for the run.
  local reopened = Runs.ended_with(job)
  local with_key, other = claimable_keys(reopened)
  if not with_key then return { Code.REFUSED, Refused.UNIQUE, job.state, other } end
  for _, each in ipairs(with_key) do Unique.claim(each) end
  -- A job that succeeded by a settle still has its token.
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
