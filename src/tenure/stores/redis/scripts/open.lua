-- open: the version of the layout, which is this caller's if there was none; and what Redis does when its memory is full
-- (nothing if it does not tell this user).
-- Arguments: the newest version that the caller knows.
-- include: draining

redis.call('HSETNX', Key.meta, 'layout', ARGV[2])
local memory = redis.pcall('INFO', 'memory')
local policy = type(memory) == 'string' and string.match(memory, 'maxmemory_policy:([%w-]+)')
return { redis.call('HGET', Key.meta, 'layout'), policy or false }
