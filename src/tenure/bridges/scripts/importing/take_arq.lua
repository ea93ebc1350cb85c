-- Take jobs of a score into custody that no worker runs, as many as there are ids. Returns {id, at, name, entry} for each.
-- ARGV: sorted set, lowest score, highest score, part, queue, ids
-- include: importing
local queue, next_id, offset, taken = ARGV[1], 6, 0, {}
while ARGV[next_id] do
    local found = redis.call('ZRANGEBYSCORE', queue, ARGV[2], ARGV[3], 'WITHSCORES', 'LIMIT', offset, 1)
    local name, score = found[1], found[2]
    if not name then break end
    if redis.call('EXISTS', 'arq:in-progress:' .. name) == 1 then
        offset = offset + 1
    else
        redis.call('ZREM', queue, name)
        local facts = {part = ARGV[4], queue = ARGV[5], at = score, name = name,
            undo = {{'ZADD', queue, score, name}},
            finish = {{'DEL', 'arq:job:' .. name, 'arq:retry:' .. name}}}
        taken[#taken + 1] = importing.take(ARGV[next_id], facts, redis.call('GET', 'arq:job:' .. name) or '')
        next_id = next_id + 1
    end
end
return taken
