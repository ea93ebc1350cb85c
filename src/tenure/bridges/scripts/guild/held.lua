-- Whether each of these jobs is still ours: it is in `processing`, its hash exists, and no one else has its lock. Returns 1 or 0 each.
-- A lock that has expired while no monitor ran is taken again; a monitor would have removed the job from `processing`.
-- ARGV: flow, JSON of queue → seconds of its locks, ids
-- include: custody, keys
local seconds, held = cjson.decode(ARGV[2]), {}
for index = 3, #ARGV do
    local id = ARGV[index]
    local header, entry = custody.get(id)
    local ours = 0
    if header then
        local queue = header[2]
        local key, token = lock_of(queue, entry), token_of(id)
        local value = redis.call('GET', key)
        if (not value or value == token)
            and redis.call('EXISTS', hash_of(queue, entry)) == 1
            and redis.call('LPOS', list_of(queue, 'processing'), entry)
        then
            ours = 1
            if not value and seconds[queue] then
                redis.call('SET', key, token, 'EX', seconds[queue], 'NX')
            end
        end
    end
    held[#held + 1] = ours
end
return held
