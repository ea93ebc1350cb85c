-- turn: 1 if a chore is the caller's to do: nobody has begun it less than so many seconds ago, by a clock that may be set back.
-- Arguments: the chore, the seconds.
-- include: script, write_when_full

local chore, interval = Script.arg(), tonumber(Script.arg())
local last = tonumber(redis.call('HGET', Key.meta, 'turn:' .. chore))
if last and last <= Script.now and Script.now < last + interval then return 0 end
redis.call('HSET', Key.meta, 'turn:' .. chore, string.format('%.17g', Script.now))
return 1
