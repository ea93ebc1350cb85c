-- Totals of queues and workers, the number of jobs that each worker holds, and the longest lease of each queue.

local Totals = lazy(function(Totals)

-- Count `number` events (1 if not given) of a queue, and of a worker if one is given. Written at the end of the script.
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
    -- A worker that is not registered has no totals.
    if redis.call('EXISTS', Key.worker .. worker) == 1 then
      for what, number in pairs(totals) do redis.call('HINCRBY', Key.worker .. worker, what, number) end
    end
  end
end

-- Add to the number of jobs that a worker holds.
function Totals.add_held(worker, number)
  if redis.call('HINCRBY', Key.holding, worker, number) == 0 then redis.call('HDEL', Key.holding, worker) end
end

-- Record a lease of this length. The longest one of a queue bounds how far ahead any lease of it can end, unless the clock
-- was set back. One number per queue, because recording each lease would cost every lease a command.
function Totals.raise_longest_lease(queue, seconds)
  if seconds > Totals.longest_lease(queue) then
    redis.call('HSET', Key.totals .. queue, 'longest', string.format('%.17g', seconds))
  end
end

-- Seconds of the longest lease given in a queue; 0 if none is recorded.
function Totals.longest_lease(queue)
  return tonumber(redis.call('HGET', Key.totals .. queue, 'longest') or 0)
end

end)
