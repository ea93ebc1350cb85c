-- Return tasks to the front of their queues, the first of them foremost, and tell the workers that wait. A task that a peer has
-- taken back is left alone.
-- ARGV: prefix, ids
-- include: custody, processes
local prefix, returned = ARGV[1], {}
for index = #ARGV, 2, -1 do
    local id = ARGV[index]
    local header = custody.get(id)
    if header then
        local owner, queue = header[1], header[2]
        if redis.call('LMOVE', processes.key(prefix, queue, id), prefix .. ':queues:' .. queue, 'LEFT', 'RIGHT') then
            returned[queue] = true
        end
        redis.call('SREM', processes.set(prefix, owner, queue), processes.id(queue, id))
        custody.drop(id)
    end
end
for queue in pairs(returned) do
    redis.call('PUBLISH', prefix .. '_' .. queue .. '_work', redis.call('LLEN', prefix .. ':queues:' .. queue))
end
