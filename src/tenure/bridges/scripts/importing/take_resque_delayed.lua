-- Take the delayed entries of one second into custody, as many as there are ids. Returns {id, at, name, entry} for each.
-- ARGV: prefix, the second, queue, ids
-- include: importing
local prefix, second = ARGV[1], ARGV[2]
local list, schedule = prefix .. ':delayed:' .. second, prefix .. ':delayed_queue_schedule'
local score = redis.call('ZSCORE', schedule, second) or '0'
local taken = {}
for index = 4, #ARGV do
    local entry = redis.call('LPOP', list)
    if not entry then break end
    local times = prefix .. ':timestamps:' .. entry
    redis.call('SREM', times, 'delayed:' .. second)
    local facts = {part = 'scheduled', queue = ARGV[3], at = second, undo = {
        {'LPUSH', list, true},
        {'ZADD', schedule, score, second},
        {'SADD', times, 'delayed:' .. second},
    }}
    taken[#taken + 1] = importing.take(ARGV[index], facts, entry)
end
if redis.call('EXISTS', list) == 0 then redis.call('ZREM', schedule, second) end
return taken
