-- resume: hand out jobs of this queue again, waking workers; 0 if it was not paused.
-- Arguments: the queue.
-- include: step, draining, indexing

local queue = Step.arg()
local resumed = redis.call('SREM', Key.paused, queue)
if resumed == 1 then
  local waiting = redis.call('ZCARD', Key.line .. queue) + redis.call('ZCARD', Key.suspects .. queue)
  waiting = waiting + redis.call('ZCARD', Key.scheduled .. queue)
  if waiting > 0 then Step.wake(queue, waiting) end
  Indexing.look(queue)
  Step.wake_workers()
end
return resumed
