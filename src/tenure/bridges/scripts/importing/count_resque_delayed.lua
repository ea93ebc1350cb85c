-- The seconds that delayed entries are due at, in order, and how many each has. Changes nothing.
-- ARGV: prefix
local found = {}
for _, second in ipairs(redis.call('ZRANGE', ARGV[1] .. ':delayed_queue_schedule', 0, -1)) do
    local count = redis.call('LLEN', ARGV[1] .. ':delayed:' .. second)
    if count > 0 then found[#found + 1] = {second, count} end
end
return found
