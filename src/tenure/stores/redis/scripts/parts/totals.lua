-- What has happened, and how many jobs workers hold.

local Totals = later(function(Totals)

-- It has happened so many times more (or once), in this queue, through this worker.
function Totals.count(what, queue, worker, number)
  Totals.add(Step.in_queues, queue, what, number or 1)
  if worker then Totals.add(Step.by_workers, worker, what, number or 1) end
end

function Totals.add(totals, name, what, number)
  local own = totals[name]
  if not own then
    own = {}
    totals[name] = own
  end
  own[what] = (own[what] or 0) + number
end

function Totals.write()
  for queue, totals in pairs(Step.in_queues) do
    for what, number in pairs(totals) do redis.call('HINCRBY', Key.totals .. queue, what, number) end
  end
  for worker, totals in pairs(Step.by_workers) do
    -- One that is not registered has none.
    if redis.call('EXISTS', Key.worker .. worker) == 1 then
      for what, number in pairs(totals) do redis.call('HINCRBY', Key.worker .. worker, what, number) end
    end
  end
end

-- A worker holds so many jobs more, or fewer.
function Totals.hold(worker, number)
  if redis.call('HINCRBY', Key.holding, worker, number) == 0 then redis.call('HDEL', Key.holding, worker) end
end

-- A lease in this queue was given or renewed for so many seconds. The longest is noted: no lease ends later than that from now,
-- unless the clock was set back since. One number for all: to note that of each lease would cost every lease a command.
function Totals.lengthen(queue, seconds)
  if seconds > Totals.longest(queue) then
    redis.call('HSET', Key.totals .. queue, 'longest', string.format('%.17g', seconds))
  end
end

-- That of the queue; 0 if none was noted.
function Totals.longest(queue)
  return tonumber(redis.call('HGET', Key.totals .. queue, 'longest') or 0)
end

end)
