-- purge: delete up to so many jobs of this queue that are not held; how many went. Blocked ones first, the newest first, so
-- that dependents go before what they wait for. A run goes as a whole.
-- Arguments: the queue, limit.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, ending, recent, finish

local queue, limit = Script.arg(), tonumber(Script.arg())
local going = {}
local function choose(key, members)
  for _, job in ipairs(Jobs.indexed_at(key, members)) do
    if #going < limit then going[#going + 1] = job end
  end
end

-- Blocked jobs stand by priority first: the newest of each, of which the newest of all go.
local newest = {}
local level = redis.call('ZREVRANGE', Key.blocked .. queue, 0, 0, 'WITHSCORES')[2]
while level do
  for _, member in ipairs(redis.call('ZREVRANGEBYSCORE', Key.blocked .. queue, level, level, 'LIMIT', 0, limit)) do
    newest[#newest + 1] = member
  end
  level = redis.call('ZREVRANGEBYSCORE', Key.blocked .. queue, '(' .. level, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
end
table.sort(newest, function(one, other) return struct.unpack('>I6', one) > struct.unpack('>I6', other) end)
choose(Key.blocked .. queue, newest)
for _, family in ipairs({ Key.scheduled, Key.line, Key.suspects }) do
  if #going < limit then choose(family .. queue, redis.call('ZRANGE', family .. queue, 0, limit - #going - 1)) end
end
local number, whole = #going, {}
for _, job in ipairs(going) do
  for _, each in ipairs(Runs.all_steps(job)) do whole[#whole + 1] = each end
end
Ending.delete_all(whole)
return Script.finish(number)
