-- Jobs of queues being reaped, and the parking of others being ended, once their time has come.

local Reaping = {}

-- End the wait of a job that nobody has completed in time: it has failed, or a step follows, which its holder will see to.
function Reaping.unpark(job)
  local goes_on = type(job.parked) == 'table'
  Step.tell(goes_on and 'overdue' or 'failed', job)
  if not goes_on then return Ending.finish_whole(job, is.failed, nil, 'wait_timeout') end
  Jobs.take(job)
  job.state, job.parked = is.waiting, job.parked[2]
  Jobs.put(job)
  Jobs.join(job)
end

-- Take up to so many jobs from holders whose lease has expired, the longest expired first; if that was not so many, end the
-- parking of jobs whose time is over. Arguments: limit, and the queues. Gives what `Losing.one` gives of each job that was taken.
function Reaping.reap()
  local limit, queues = tonumber(Step.arg()), Step.rest()

  -- Up to so many places whose time has come, over all queues.
  local function over(family, room)
    local found = {}
    for _, queue in ipairs(queues) do
      if #found >= room then break end
      local places = redis.call('ZRANGEBYSCORE', family .. queue, '-inf', Step.score_of(Step.now), 'LIMIT', 0, room - #found)
      for i = 1, #places do found[#found + 1] = places[i] end
    end
    return found
  end

  local reaped = Losing.all(over(Key.held, limit))
  if #reaped < limit then
    for _, place in ipairs(over(Key.parked, limit)) do
      local job = Jobs.load(string.sub(place, 7))
      -- The end of one may have been the end of the next, which waited for it.
      if job and not Jobs.final(job.state) then Reaping.unpark(job) end
    end
  end
  return reaped
end
