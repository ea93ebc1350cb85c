-- Remove the records of an owner's slots, and return what was put aside in the queues that they served. Nothing fails.
-- ARGV: prefix, owner
-- include: arrived, unregistered
local prefix, owner = ARGV[1], ARGV[2]
local owners = prefix .. ':tenure:workers'
local known = redis.call('HGETALL', owners)
for index = 1, #known, 2 do
    local id = known[index]
    if known[index + 1] == owner then
        unregistered(prefix, id)
        redis.call('HDEL', owners, id)
        for queue in string.gmatch(string.match(id, '^[^:]*:[^:]*:(.*)$') or '', '[^,]+') do put_back(prefix, queue) end
    end
end
