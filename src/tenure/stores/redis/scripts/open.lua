-- open: the version of the layout, which is this caller's if there was none or an older one; and what Redis does when its memory is full
-- (nothing if it does not tell this user).
-- Arguments: the newest version that the caller knows.
-- include: draining

-- Of an older layout everything is also of the newer one.
local found = redis.call('HGET', Key.meta, 'layout')
if not found or tonumber(found) < tonumber(ARGV[2]) then redis.call('HSET', Key.meta, 'layout', ARGV[2]) end
local memory = redis.pcall('INFO', 'memory')
local policy = type(memory) == 'string' and string.match(memory, 'maxmemory_policy:([%w-]+)')
return { redis.call('HGET', Key.meta, 'layout'), policy or false }
