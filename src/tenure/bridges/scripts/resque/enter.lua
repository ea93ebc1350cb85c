-- Register each slot of a worker as a worker of Resque, and note which of ours it belongs to.
-- ARGV: prefix, owner, the owner as which this process has registered them before (empty: none), ids of the slots
-- include: calendar, text, registered
for index = 4, #ARGV do
    local id = ARGV[index]
    local before = redis.call('HGET', owners, id)
    if before and before ~= ARGV[2] and before ~= ARGV[3] then
        -- What a process with the same number has left.
        redis.call('DEL', prefix .. ':worker:' .. id, prefix .. ':worker:' .. id .. ':started')
    end
    redis.call('HSET', owners, id, ARGV[2])
    registered(id)
end
