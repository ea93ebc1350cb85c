-- Jobs of queues being reaped, and the parking of others being ended, once their time has come.

local Reaping = {}

-- End the wait of a job that nobody has completed in time: it has failed, or a step follows, which its holder will see to.
function Reaping.end_parking(job)
  local goes_on = type(job.parked) == 'table'
  Script.add_consequence(goes_on and 'overdue' or 'failed', job)
  if not goes_on then return Ending.finish_and_propagate(job, is.failed, nil, RecordedError.WAIT_TIMEOUT) end
  Jobs.remove_from_indexes(job)
  job.state, job.parked = is.waiting, job.parked[2]
  Jobs.add_to_indexes(job)
  Jobs.enter_line(job)
end

-- Of these queues those in which jobs are held; no lease of them ends later than the longest that was given there from now on. One
-- that did was given before the clock was set back: its holder has as long as it was promised, and no longer. A second more is no
-- reason to change anything.
function Reaping.cap_leases(queues)
  local held = {}
  for _, queue in ipairs(queues) do
    local last = redis.call('ZREVRANGE', Key.held .. queue, 0, 0, 'WITHSCORES')[2]
    if last then
      held[#held + 1] = queue
      local longest = Totals.longest_lease(queue)
      if longest > 0 and tonumber(last) > (Script.now + longest + 1) * 1000000 then
        local latest, scored = Script.score_of(Script.now + longest), {}
        local late = redis.call('ZREVRANGEBYSCORE', Key.held .. queue, '+inf', '(' .. latest, 'LIMIT', 0, Script.CHUNK)
        for i, member in ipairs(late) do scored[2 * i - 1], scored[2 * i] = latest, member end
        Script.call_in_chunks('ZADD', Key.held .. queue, scored)
      end
    end
  end
  return held
end

-- Take up to so many jobs from holders whose lease has expired, the longest expired first; if that was not so many, end the
-- parking of jobs whose time is over. Arguments: limit, and the queues. Gives what `LostJobs.lose` gives of each job that was taken.
function Reaping.reap()
  local limit, queues = tonumber(Script.arg()), Script.remaining_args()

  -- Up to so many jobs whose time has come, over these queues.
  local function over(family, queues, room)
    local found = {}
    for _, queue in ipairs(queues) do
      if #found >= room then break end
      local members = redis.call('ZRANGEBYSCORE', family .. queue, '-inf', Script.score_of(Script.now), 'LIMIT', 0, room - #found)
      for _, job in ipairs(Jobs.indexed_at(family .. queue, members)) do found[#found + 1] = job end
    end
    return found
  end

  local reaped = LostJobs.lose_all(over(Key.held, Reaping.cap_leases(queues), limit))
  if #reaped < limit then
    for _, each in ipairs(over(Key.parked, queues, limit)) do
      local job = Jobs.load(each.ref)
      -- The end of one may have been the end of the next, which waited for it.
      if job and not Jobs.final(job.state) then Reaping.end_parking(job) end
    end
  end
  return reaped
end
