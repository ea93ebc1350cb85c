-- Return jobs to the front of their queues, the first of them foremost, and unlock them. What the monitor has failed is left alone.
-- ARGV: flow, ids
-- include: custody, keys
for index = #ARGV, 2, -1 do
    local id = ARGV[index]
    local header, entry = custody.get(id)
    if header then
        local queue = header[2]
        custody.drop(id)
        local value = redis.call('GET', lock_of(queue, entry))
        if not value or value == token_of(id) then
            unlock(queue, entry)
            if redis.call('LREM', list_of(queue, 'processing'), 1, entry) == 1 then
                redis.call('LPUSH', list_of(queue, 'waiting'), entry)
            end
        end
    end
end
