-- turn: 1 if a chore is the caller's to do: nobody has begun it less than so many seconds ago, by a clock that may be set back.
-- Arguments: the chore, the seconds.
-- include: step, draining

local chore, interval = Step.arg(), tonumber(Step.arg())
local last = tonumber(redis.call('HGET', Key.meta, 'turn:' .. chore))
if last and last <= Step.now and Step.now < last + interval then return 0 end
redis.call('HSET', Key.meta, 'turn:' .. chore, string.format('%.17g', Step.now))
return 1
