-- listen: a worker is about to wait for work in queues that a list of patterns serves; the name of one that has some already, or
-- nothing. Calls to earlier ones that were busy then are dropped if their queue has nothing to do any more, and made one each.
-- Arguments: the list, and how to match it.
-- include: script, write_when_full

local FORGET_AFTER = 600  -- seconds for which a list is called after its last worker began to wait; none waits as long as that

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
