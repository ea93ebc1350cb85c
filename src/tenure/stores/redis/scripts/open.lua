-- open: the version of the layout, which is this caller's if there was none or an older one; what Redis does when its memory is full
-- (nothing if it does not tell this user); and which commands this user may not use: then nothing was done.
-- Arguments: the newest version that the caller knows.

-- Every command that any script uses is tried on a key of its own, for a script that is refused one in its middle stays half done.
-- SCAN alone is not: without it only inboxes that no program has named stay unseen. Only rights matter here: nearly all of these find a key of another type, and change nothing.
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
  for _, words in ipairs({ 'NOPERM', 'ACL failure in script', 'The user executing the script can' }) do  -- as `pool.py` knows them
    if type(answer) == 'table' and answer.err and string.find(answer.err, words, 1, true) then
      refused[#refused + 1] = try[1]
      break
    end
  end
end
if #refused > 0 then return { false, false, refused } end

-- include: write_when_full

-- Of an older layout everything is also of the newer one.
local found = redis.call('HGET', Key.meta, 'layout')
if not found or tonumber(found) < tonumber(ARGV[2]) then redis.call('HSET', Key.meta, 'layout', ARGV[2]) end
local memory = redis.pcall('INFO', 'memory')
local policy = type(memory) == 'string' and string.match(memory, 'maxmemory_policy:([%w-]+)')
return { redis.call('HGET', Key.meta, 'layout'), policy or false, refused }
