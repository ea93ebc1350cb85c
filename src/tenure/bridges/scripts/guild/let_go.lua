-- Drop the custody of jobs that the monitor has failed, or whose hash has expired, and what is left of their locks.
-- ARGV: flow, ids
-- include: custody, keys
for index = 2, #ARGV do
    local id = ARGV[index]
    local header, entry = custody.get(id)
    if header then
        local queue = header[2]
        custody.drop(id)
        if redis.call('GET', lock_of(queue, entry)) == token_of(id) then
            unlock(queue, entry)
            redis.call('LREM', list_of(queue, 'processing'), 1, entry)
        end
    end
end
