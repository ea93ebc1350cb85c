-- Remove all tasks with these bytes from a queue, and tell the workers that run one. Frees the uniqueness of what was removed,
-- because no worker will finish it. Returns how many were removed.
-- ARGV: prefix, queue, then for each the bytes of the task and their MD5
local prefix, queue, removed = ARGV[1], ARGV[2], 0
for index = 3, #ARGV, 2 do
    local count = redis.call('LREM', prefix .. ':queues:' .. queue, 0, ARGV[index])
    local unique = prefix .. ':uniqueTasks:' .. ARGV[index + 1]
    if count > 0 and redis.call('EXISTS', unique) == 1 then redis.call('DEL', unique) end
    redis.call('PUBLISH', prefix .. '_' .. queue .. '_cancel', ARGV[index])
    removed = removed + count
end
return removed
