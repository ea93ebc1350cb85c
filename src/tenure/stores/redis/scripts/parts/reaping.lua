-- Reaps expired leases, and ends parkings that have timed out.

local Reaping = {}

-- The parking of a job has timed out: the job fails, or goes back in line to continue with the step that `on_timeout`
-- names.
function Reaping.end_parking(job)
  local goes_on = type(job.parked) == 'table'
  Script.add_consequence(goes_on and 'overdue' or 'failed', job)
  if not goes_on then return Ending.finish_and_propagate(job, is.failed, nil, RecordedError.WAIT_TIMEOUT) end
  Jobs.remove_from_indexes(job)
  job.state, job.parked = is.waiting, job.parked[2]
  Jobs.add_to_indexes(job)
  Jobs.enter_line(job)
end

-- The queues among these that have running jobs. A lease that ends later than the longest one given in its queue was given
-- before the clock was set back: shorten it to that length from now. One second of tolerance avoids needless writes.
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

-- Take up to `limit` jobs from holders whose lease has expired, queue by queue, the longest expired first. If fewer than
-- `limit` were found, end parkings that have timed out.
-- ARGV: limit, queues. Returns what `LostJobs.lose` returns for each job taken.
function Reaping.reap()
  local limit, queues = tonumber(Script.arg()), Script.remaining_args()

  -- Up to `room` jobs of these queues whose time has come.
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
      -- The end of the previous job may have ended this one, which waited for it.
      if job and not Jobs.final(job.state) then Reaping.end_parking(job) end
    end
  end
  return reaped
end
