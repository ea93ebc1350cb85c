-- resume: lease jobs of a paused queue again, and wake workers.
-- ARGV: time, queue.
-- Returns: 1, or 0 if it was not paused.
-- include: script, write_when_full, queue_index

local queue = Script.arg()
local resumed = redis.call('SREM', Key.paused, queue)
if resumed == 1 then
  local waiting = redis.call('ZCARD', Key.line .. queue) + redis.call('ZCARD', Key.suspects .. queue)
  waiting = waiting + redis.call('ZCARD', Key.scheduled .. queue)
  if waiting > 0 then Script.add_new_work(queue, waiting) end
  QueueIndex.refresh_time(queue)
  Script.wake_workers()
end
return resumed
