-- beat: record that a worker is alive, with its pulse. Changes nothing for a worker that is not registered.
-- ARGV: time, worker id, pulse (JSON).
-- Returns: 1, or 0 if the worker is not registered.
-- include: script, write_when_full

local worker, pulse = Script.arg(), Script.arg()
local known = redis.call('EXISTS', Key.worker .. worker)
if known == 1 then redis.call('HSET', Key.worker .. worker, 'beat', Script.now, 'pulse', pulse) end
return known
