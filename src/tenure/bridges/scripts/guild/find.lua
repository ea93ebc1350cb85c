-- The jobs of a look-up list that have not expired: {id, {attribute, text, ...}} for each, in the order of their creation.
-- ARGV: flow, look-up list
-- include: keys
local found = {}
for _, id in ipairs(redis.call('LRANGE', ARGV[2], 0, -1)) do
    local texts = redis.call('HGETALL', 'job:' .. FLOW .. ':' .. id)
    if #texts > 0 then
        found[#found + 1] = {id, texts}
    end
end
return found
