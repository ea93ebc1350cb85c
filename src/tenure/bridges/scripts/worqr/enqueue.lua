-- Push tasks to the back of a queue and tell the workers that wait. With uniqueness, all of them or none: returns the
-- position of the first task that is held already, from 1; 0 if they were pushed.
-- ARGV: prefix, queue, '1' if unique, then for each its bytes and its MD5
local prefix, queue, unique = ARGV[1], ARGV[2], ARGV[3] == '1'
local tasks, keys, seen = {}, {}, {}
for index = 4, #ARGV, 2 do
    local key = prefix .. ':uniqueTasks:' .. ARGV[index + 1]
    tasks[#tasks + 1] = ARGV[index]
    keys[#keys + 1] = key
    if unique and (seen[key] or redis.call('EXISTS', key) == 1) then return #tasks end
    seen[key] = true
end
if unique then
    for _, key in ipairs(keys) do redis.call('SET', key, ' ', 'NX') end
end
for index = 1, #tasks, 1000 do
    redis.call('LPUSH', prefix .. ':queues:' .. queue, unpack(tasks, index, math.min(index + 999, #tasks)))
end
redis.call('PUBLISH', prefix .. '_' .. queue .. '_work', #tasks)
return 0
