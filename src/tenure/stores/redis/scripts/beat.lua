-- beat: note that a worker lives, and what it says of itself; 0 if the registry does not know it.
-- Arguments: its id, its pulse.
-- include: script, write_when_full

local worker, pulse = Script.arg(), Script.arg()
local known = redis.call('EXISTS', Key.worker .. worker)
if known == 1 then redis.call('HSET', Key.worker .. worker, 'beat', Script.now, 'pulse', pulse) end
return known
