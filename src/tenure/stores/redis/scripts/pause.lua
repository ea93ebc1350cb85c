-- pause: hand out no more jobs of this queue, which need not exist yet; 0 if it was paused already.
-- Arguments: the queue.
-- include: script, write_when_full

local queue = Script.arg()
Script.register_queue(queue)
redis.call('DEL', Key.marker .. queue)
redis.call('ZREM', Key.ready, queue)
return redis.call('SADD', Key.paused, queue)
