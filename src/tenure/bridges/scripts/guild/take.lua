-- Move jobs from `waiting` to `processing`, queue by queue, as many as there are ids; lock them, and take them into custody.
-- A job whose hash has expired is dropped, up to 1,000 of them in a call, so that a long list of these does not stop the server.
-- Returns {id, queue, entry, {the text of each attribute, or nil}} for each.
-- ARGV: flow, owner, number of ids, ids, then for each queue its name, the seconds of its locks, number of attributes, attributes
-- include: custody, keys
local owner, ids = ARGV[2], tonumber(ARGV[3])
local next_id, last_id, index, taken, to_drop = 4, 3 + ids, 4 + ids, {}, 1000
while ARGV[index] and next_id <= last_id do
    local queue, seconds, count = ARGV[index], ARGV[index + 1], tonumber(ARGV[index + 2])
    while next_id <= last_id and to_drop > 0 do
        local entry = redis.call('LMOVE', list_of(queue, 'waiting'), list_of(queue, 'processing'), 'LEFT', 'RIGHT')
        if not entry then break end
        local hash = hash_of(queue, entry)
        if redis.call('EXISTS', hash) == 0 then
            redis.call('RPOP', list_of(queue, 'processing'))
            to_drop = to_drop - 1
        else
            redis.call('SET', lock_of(queue, entry), token_of(ARGV[next_id]), 'EX', seconds)
            custody.take(ARGV[next_id], owner, queue, entry)
            local texts = {}
            if count > 0 then
                texts = redis.call('HMGET', hash, unpack(ARGV, index + 3, index + 2 + count))
            end
            taken[#taken + 1] = {ARGV[next_id], queue, entry, texts}
            next_id = next_id + 1
        end
    end
    index = index + 3 + count
end
return taken
