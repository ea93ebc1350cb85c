-- listen: register a list of patterns before a worker waits for a call with BLPOP, so that no call is missed in between.
-- Calls left over from workers that were busy are dropped if their queue has nothing to do, and reduced to one per queue.
-- ARGV: time, the patterns joined by commas, Lua patterns for matching a queue.
-- Returns: the name of a queue that has work already; false if there is none, and the worker should wait.
-- include: script, write_when_full

local FORGET_AFTER = 600  -- seconds that a list is still called after a worker last began to wait with it; none waits that long

local patterns, expressions = Script.arg(), Script.arg()
local known = redis.call('HGETALL', Key.listeners)
for i = 1, #known, 2 do
  if tonumber(string.match(known[i + 1], '^%S+')) < Script.now - FORGET_AFTER then
    redis.call('HDEL', Key.listeners, known[i])
    redis.call('DEL', Key.calls .. known[i])
  end
end
redis.call('HSET', Key.listeners, patterns, string.format('%.0f ', Script.now) .. expressions)
local calls, open, seen = redis.call('LRANGE', Key.calls .. patterns, 0, 199), {}, {}
if #calls == 0 then return false end
for _, queue in ipairs(calls) do
  local ready = not seen[queue] and (redis.call('ZSCORE', Key.ready, queue) or redis.call('EXISTS', Key.inbox .. queue) == 1)
  if ready then open[#open + 1] = queue end
  seen[queue] = true
end
redis.call('DEL', Key.calls .. patterns)
if #open > 1 then redis.call('RPUSH', Key.calls .. patterns, unpack(open, 2)) end
return open[1] or false
