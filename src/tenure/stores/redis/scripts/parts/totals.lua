-- What has happened, and how many jobs workers hold.

local Totals = lazy(function(Totals)

-- It has happened so many times more (or once), in this queue, through this worker.
function Totals.count(what, queue, worker, number)
  Totals.add(Script.queue_totals, queue, what, number or 1)
  if worker then Totals.add(Script.worker_totals, worker, what, number or 1) end
end

function Totals.add(totals, name, what, number)
  local counts = totals[name]
  if not counts then
    counts = {}
    totals[name] = counts
  end
  counts[what] = (counts[what] or 0) + number
end

function Totals.write()
  for queue, totals in pairs(Script.queue_totals) do
    for what, number in pairs(totals) do redis.call('HINCRBY', Key.totals .. queue, what, number) end
  end
  for worker, totals in pairs(Script.worker_totals) do
    -- One that is not registered has none.
    if redis.call('EXISTS', Key.worker .. worker) == 1 then
      for what, number in pairs(totals) do redis.call('HINCRBY', Key.worker .. worker, what, number) end
    end
  end
end

-- A worker holds so many jobs more, or fewer.
function Totals.add_held(worker, number)
  if redis.call('HINCRBY', Key.holding, worker, number) == 0 then redis.call('HDEL', Key.holding, worker) end
end

-- A lease in this queue was given or renewed for so many seconds. The longest is noted: no lease ends later than that from now,
-- unless the clock was set back since. One number for all: to note that of each lease would cost every lease a command.
function Totals.raise_longest_lease(queue, seconds)
  if seconds > Totals.longest_lease(queue) then
    redis.call('HSET', Key.totals .. queue, 'longest', string.format('%.17g', seconds))
  end
end

-- That of the queue; 0 if none was noted.
function Totals.longest_lease(queue)
  return tonumber(redis.call('HGET', Key.totals .. queue, 'longest') or 0)
end

end)
