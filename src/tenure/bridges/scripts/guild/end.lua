-- Write the ends of jobs that are in custody, each only if its lock is still ours and it is still in `processing`: else the monitor
-- has failed it, and nothing is written. A success goes on to the next queue. Nothing is written to a hash that has expired.
-- ARGV: flow, JSON of queue → [its name as JSON, its next queue], then for each end its id, "completed" or "failed", the next queue
-- that its result names, number of texts, attributes and their texts
-- include: custody, keys
local queues, index = cjson.decode(ARGV[2]), 3

local function write(queue, entry, failed, named, first, last)
    local hash = hash_of(queue, entry)
    if redis.call('EXISTS', hash) == 0 then return end
    local name, following = '"' .. queue .. '"', ''
    if queues[queue] then
        name, following = queues[queue][1], queues[queue][2]
    end
    for from = first, last, 1000 do
        redis.call('HSET', hash, unpack(ARGV, from, math.min(from + 999, last)))
    end
    if failed then
        redis.call('HSET', hash, 'failedQueue', name)
        return
    end
    redis.call('HSET', hash, 'completed-queue', name)
    if named ~= '' then following = named end
    if following ~= '' then
        redis.call('RPUSH', list_of(following, 'waiting'), entry)
    end
end

while ARGV[index] do
    local id, failed, named, texts = ARGV[index], ARGV[index + 1] == 'failed', ARGV[index + 2], tonumber(ARGV[index + 3])
    local header, entry = custody.get(id)
    if header then
        local queue = header[2]
        custody.drop(id)
        if redis.call('GET', lock_of(queue, entry)) == token_of(id) then
            unlock(queue, entry)
            if redis.call('LREM', list_of(queue, 'processing'), 1, entry) == 1 then
                write(queue, entry, failed, named, index + 4, index + 3 + texts)
            end
        end
    end
    index = index + 4 + texts
end
