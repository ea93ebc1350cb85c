-- Take messages into custody that a worker had fetched and not acknowledged, as many as there are ids, the oldest first.
-- Returns {id, at, name, entry} for each.
-- ARGV: hash, its index, ids
-- include: importing
local unacked, times, next_id, taken = ARGV[1], ARGV[2], 3, {}
while ARGV[next_id] do
    local found = redis.call('ZRANGE', times, 0, 0, 'WITHSCORES')
    local tag, score = found[1], found[2]
    if not tag then break end
    redis.call('ZREM', times, tag)
    local entry = redis.call('HGET', unacked, tag)
    if entry then
        redis.call('HDEL', unacked, tag)
        local facts = {part = 'running', queue = '', at = '', name = tag,
            undo = {{'HSET', unacked, tag, true}, {'ZADD', times, score, tag}}}
        taken[#taken + 1] = importing.take(ARGV[next_id], facts, entry)
        next_id = next_id + 1
    end
end
return taken
