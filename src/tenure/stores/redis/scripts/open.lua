-- open: check the caller's rights, and set the version of the layout if there is none or an older one.
-- ARGV: time, newest layout version that the caller knows.
-- Returns: layout version, maxmemory policy (false if this user may not run INFO), commands that this user may not run. If
-- there are such commands nothing was changed, and the first two values are false.

-- Tries every command that any script uses on a key made for it, because a script that is refused a command midway stays
-- half done. Only rights matter here: nearly all of these commands fail because the key has another type, and change
-- nothing. SCAN is not tried: without it only inboxes that no program has named stay unseen.
local refused, key = {}, Key.probe
for _, try in ipairs({
  { 'HSET', key, 'a', 1 }, { 'HINCRBY', key, 'a', 0 }, { 'HGET', key, 'a' }, { 'HMGET', key, 'a' }, { 'HGETALL', key },
  { 'HEXISTS', key, 'a' }, { 'HLEN', key }, { 'HSCAN', key, 0 }, { 'HDEL', key, 'b' },
  { 'LINDEX', key, 0 }, { 'LLEN', key }, { 'LPOP', key, 1 }, { 'LRANGE', key, 0, 0 },
  { 'RPUSH', key, 'a' },
  { 'SADD', key, 'a' }, { 'SISMEMBER', key, 'a' }, { 'SMEMBERS', key }, { 'SREM', key, 'a' }, { 'SSCAN', key, 0 },
  { 'ZADD', key, 0, 'a' }, { 'ZCARD', key }, { 'ZCOUNT', key, 0, 0 }, { 'ZPOPMIN', key, 1 }, { 'ZRANGE', key, 0, 0 },
  { 'ZRANGEBYLEX', key, '[a', '[b' }, { 'ZRANGEBYSCORE', key, 0, 0 }, { 'ZREM', key, 'a' }, { 'ZREVRANGE', key, 0, 0 },
  { 'ZREVRANGEBYLEX', key, '[b', '[a' }, { 'ZREVRANGEBYSCORE', key, 0, 0 }, { 'ZSCAN', key, 0 }, { 'ZSCORE', key, 'a' },
  { 'EXISTS', key }, { 'PUBLISH', Key.signals .. 'probe', '' }, { 'TIME' }, { 'DEL', key },
}) do
  local answer = redis.pcall(unpack(try))
  for _, words in ipairs({ 'NOPERM', 'ACL failure in script', 'The user executing the script can' }) do  -- as in `pool.py`
    if type(answer) == 'table' and answer.err and string.find(answer.err, words, 1, true) then
      refused[#refused + 1] = try[1]
      break
    end
  end
end
if #refused > 0 then return { false, false, refused } end

-- include: write_when_full

-- Everything in an older layout is valid in a newer one.
local found = redis.call('HGET', Key.meta, 'layout')
if not found or tonumber(found) < tonumber(ARGV[2]) then redis.call('HSET', Key.meta, 'layout', ARGV[2]) end
local memory = redis.pcall('INFO', 'memory')
local policy = type(memory) == 'string' and string.match(memory, 'maxmemory_policy:([%w-]+)')
return { redis.call('HGET', Key.meta, 'layout'), policy or false, refused }
