-- leave: remove a worker that has stopped from the registry. Jobs that it still holds stay leased until they are reaped.
-- ARGV: time, worker id.
-- include: script

local worker = Script.arg()
redis.call('DEL', Key.worker .. worker)
redis.call('ZREM', Key.workers, worker)
