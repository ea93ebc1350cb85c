-- Write the heartbeats and pings of an owner's slots, and register again those that were removed.
-- ARGV: prefix, owner
-- include: calendar, text, registered
local known = redis.call('HGETALL', owners)
for index = 1, #known, 2 do
    if known[index + 1] == ARGV[2] then registered(known[index]) end
end
