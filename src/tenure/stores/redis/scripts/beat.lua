-- beat: record that a worker is alive, with its pulse. Changes nothing for a worker that is not registered.
-- ARGV: time, worker id, pulse (JSON).
-- Returns: the order that stands for the worker, '' if it has been given none; false if the worker is not registered.
-- include: script, write_when_full

local worker, pulse = Script.arg(), Script.arg()
if redis.call('EXISTS', Key.worker .. worker) == 0 then return false end
redis.call('HSET', Key.worker .. worker, 'beat', Script.now, 'pulse', pulse)
return redis.call('HGET', Key.worker .. worker, 'order') or ''
