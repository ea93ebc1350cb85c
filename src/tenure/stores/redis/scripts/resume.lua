-- resume: hand out jobs of this queue again, waking workers; 0 if it was not paused.
-- Arguments: the queue.
-- include: step, draining

local queue = Step.arg()
local resumed = redis.call('SREM', Key.paused, queue)
if resumed == 1 then
  local waiting = redis.call('ZCARD', Key.line .. queue) + redis.call('ZCARD', Key.suspects .. queue)
  Step.fill(Key.marker .. queue, waiting + redis.call('ZCARD', Key.scheduled .. queue))
end
return resumed
