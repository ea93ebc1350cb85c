-- pause: lease no more jobs of a queue. The queue need not exist yet.
-- ARGV: time, queue.
-- Returns: 1, or 0 if it was paused already.
-- include: script, write_when_full

local queue = Script.arg()
Script.register_queue(queue)
redis.call('DEL', Key.marker .. queue)
redis.call('ZREM', Key.ready, queue)
return redis.call('SADD', Key.paused, queue)
