-- leave: remove a worker that has stopped. What it still holds stays leased until reaped.
-- Arguments: its id.
-- include: script

local worker = Script.arg()
redis.call('DEL', Key.worker .. worker)
redis.call('ZREM', Key.workers, worker)
