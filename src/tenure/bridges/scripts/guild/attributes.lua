-- The attributes of jobs in custody: {text or nil, ...} for each, in the order of its attributes.
-- ARGV: flow, then for each its queue, entry, number of attributes, attributes
-- include: keys
local found, index = {}, 2
while ARGV[index] do
    local count, texts = tonumber(ARGV[index + 2]), {}
    if count > 0 then
        texts = redis.call('HMGET', hash_of(ARGV[index], ARGV[index + 1]), unpack(ARGV, index + 3, index + 2 + count))
    end
    found[#found + 1] = texts
    index = index + 3 + count
end
return found
