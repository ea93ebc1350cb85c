-- Move entries that are due to the back of their queues, those of the earliest time first; at most `limit` of them.
-- Returns how many were moved, and how many name no queue: these go to PREFIX:tenure:unscheduled.
-- ARGV: prefix, limit
-- include: calendar
local prefix, limit = ARGV[1], tonumber(ARGV[2])
local schedule, moved, nameless = prefix .. ':delayed_queue_schedule', 0, 0
while moved + nameless < limit do
    local due = redis.call('ZRANGEBYSCORE', schedule, '-inf', now(), 'LIMIT', 0, 1)[1]
    if not due then break end
    local entry = redis.call('LPOP', prefix .. ':delayed:' .. due)
    if entry then
        redis.call('SREM', prefix .. ':timestamps:' .. entry, 'delayed:' .. due)
        local readable, found = pcall(cjson.decode, entry)
        local queue = readable and type(found) == 'table' and found.queue
        if type(queue) == 'string' then
            redis.call('SADD', prefix .. ':queues', queue)
            redis.call('RPUSH', prefix .. ':queue:' .. queue, entry)
            moved = moved + 1
        else
            redis.call('RPUSH', prefix .. ':tenure:unscheduled', entry)
            nameless = nameless + 1
        end
    else
        redis.call('ZREM', schedule, due)
    end
end
return {moved, nameless}
