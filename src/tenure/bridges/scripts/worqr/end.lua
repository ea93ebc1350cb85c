-- Finish tasks that are in custody, unless a peer has taken them back: free their uniqueness and tell who listens.
-- ARGV: prefix, then for each its id, the MD5 of the task, and the message
-- include: custody, processes
local prefix = ARGV[1]
for index = 2, #ARGV, 3 do
    local id, md5, message = ARGV[index], ARGV[index + 1], ARGV[index + 2]
    local header = custody.get(id)
    if header then
        local owner, queue = header[1], header[2]
        if redis.call('EXISTS', processes.key(prefix, queue, id)) == 1 then
            redis.call('DEL', prefix .. ':uniqueTasks:' .. md5)
            redis.call('DEL', processes.key(prefix, queue, id))
            redis.call('SREM', processes.set(prefix, owner, queue), processes.id(queue, id))
            redis.call('PUBLISH', prefix .. '_' .. queue .. '_done', message)
        else
            redis.call('SREM', processes.set(prefix, owner, queue), processes.id(queue, id))
        end
        custody.drop(id)
    end
end
