-- Take tasks into custody, queue by queue, as many as there are ids. Returns {id, queue, task} for each.
-- ARGV: prefix, owner, number of queues, queues, ids
-- include: custody, processes
local prefix, owner, queues = ARGV[1], ARGV[2], tonumber(ARGV[3])
local next_id, taken = 4 + queues, {}
for index = 4, 3 + queues do
    local queue = ARGV[index]
    while ARGV[next_id] do
        local id = ARGV[next_id]
        local task = redis.call('LMOVE', prefix .. ':queues:' .. queue, processes.key(prefix, queue, id), 'RIGHT', 'LEFT')
        if not task then break end
        redis.call('SADD', processes.set(prefix, owner, queue), processes.id(queue, id))
        custody.take(id, owner, queue, task)
        taken[#taken + 1] = {id, queue, task}
        next_id = next_id + 1
    end
end
return taken
