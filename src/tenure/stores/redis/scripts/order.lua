-- order: give a worker an order, which its next beat returns. Changes nothing for a worker that is not registered.
-- ARGV: time, worker id, order.
-- Returns: 1, or 0 if the worker is not registered.
-- include: script, write_when_full

local worker, order = Script.arg(), Script.arg()
local known = redis.call('EXISTS', Key.worker .. worker)
if known == 1 then redis.call('HSET', Key.worker .. worker, 'order', order) end
return known
