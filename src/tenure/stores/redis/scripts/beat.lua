-- beat: note that a worker lives and holds so many jobs; 0 if the registry does not know it.
-- Arguments: its id, how many.
-- include: step, draining

local worker, held = Step.arg(), Step.arg()
local known = redis.call('EXISTS', Key.worker .. worker)
if known == 1 then redis.call('HSET', Key.worker .. worker, 'beat', Step.now, 'held', held) end
return known
