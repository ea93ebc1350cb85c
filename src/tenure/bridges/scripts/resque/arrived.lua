-- Resque: return the entries that an idle bridge has put aside to the front of their queue, in their order.
local function put_back(prefix, queue)
    local aside = prefix .. ':tenure:arrived:' .. queue
    while redis.call('LMOVE', aside, prefix .. ':queue:' .. queue, 'RIGHT', 'LEFT') do end
end
