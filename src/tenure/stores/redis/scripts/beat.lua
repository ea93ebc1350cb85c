-- beat: note that a worker lives, and what it says of itself; 0 if the registry does not know it.
-- Arguments: its id, its pulse.
-- include: step, draining

local worker, pulse = Step.arg(), Step.arg()
local known = redis.call('EXISTS', Key.worker .. worker)
if known == 1 then redis.call('HSET', Key.worker .. worker, 'beat', Step.now, 'pulse', pulse) end
return known
