-- Take messages into custody whose ids are in a list, set or sorted set, as many as there are ids. Returns {id, at, name, entry} for each.
-- ARGV: key, its type, hash of the messages, part, queue, ids
-- include: importing
local key, kind, messages, taken = ARGV[1], ARGV[2], ARGV[3], {}
for index = 6, #ARGV do
    local name, undo
    if kind == 'list' then
        name = redis.call('LPOP', key)
        undo = {'LPUSH', key, name}
    elseif kind == 'set' then
        name = redis.call('SPOP', key)
        undo = {'SADD', key, name}
    else
        local found = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
        name = found[1]
        if name then redis.call('ZREM', key, name) end
        undo = {'ZADD', key, found[2], name}
    end
    if not name then break end
    local facts = {part = ARGV[4], queue = ARGV[5], at = '', name = name, undo = {undo}, finish = {{'HDEL', messages, name}}}
    taken[#taken + 1] = importing.take(ARGV[index], facts, redis.call('HGET', messages, name) or '')
end
return taken
