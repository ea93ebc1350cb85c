-- Prolong the locks of these jobs, where they are still ours. Returns the ids of those in custody whose lock is gone, or another's.
-- ARGV: flow, JSON of queue → seconds of its locks, ids
-- include: custody, keys
local seconds, lost = cjson.decode(ARGV[2]), {}
for index = 3, #ARGV do
    local header, entry = custody.get(ARGV[index])
    if header then
        local key, token = lock_of(header[2], entry), token_of(ARGV[index])
        if redis.call('GET', key) ~= token then
            lost[#lost + 1] = ARGV[index]
        elseif seconds[header[2]] then
            redis.call('SET', key, token, 'EX', seconds[header[2]], 'XX')
        end
    end
end
return lost
