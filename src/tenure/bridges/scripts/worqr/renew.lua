-- Register the worker again, because a peer may have removed it, unless it has left. Returns the ids of the tasks that are in
-- custody, but were taken back.
-- ARGV: prefix, owner, ids
-- include: custody, processes
local prefix, owner, lost = ARGV[1], ARGV[2], {}
if redis.call('HEXISTS', prefix .. ':tenure:workers', owner) == 1 then
    redis.call('SADD', prefix .. ':workers', owner)
    redis.call('SADD', prefix .. ':permanentWorkers', owner)
end
for index = 3, #ARGV do
    local header = custody.get(ARGV[index])
    if header and redis.call('EXISTS', processes.key(prefix, header[2], ARGV[index])) == 0 then
        lost[#lost + 1] = ARGV[index]
    end
end
return lost
