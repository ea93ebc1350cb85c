-- claim_chore: claim a periodic chore for one caller every `interval` seconds. The check and the claim are atomic.
-- ARGV: time, name of the chore, interval in seconds.
-- Returns: 1 if the chore is the caller's. 0 if it was claimed less than `interval` seconds ago; a claim that lies in the
-- future, because the clock was set back, does not count.
-- include: script, write_when_full

local chore, interval = Script.arg(), tonumber(Script.arg())
local last = tonumber(redis.call('HGET', Key.meta, 'turn:' .. chore))
if last and last <= Script.now and Script.now < last + interval then return 0 end
redis.call('HSET', Key.meta, 'turn:' .. chore, string.format('%.17g', Script.now))
return 1
