-- purge: delete up to `limit` jobs of a queue that are not running. Blocked jobs first, the newest of them first, so that
-- dependents go before their blockers. A run is deleted as a whole.
-- ARGV: time, queue, limit.
-- Returns: number of deleted jobs, a run counting once.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, ending, recent, finish

local queue, limit = Script.arg(), tonumber(Script.arg())
local to_delete = {}
local function choose(key, members)
  for _, job in ipairs(Jobs.indexed_at(key, members)) do
    if #to_delete < limit then to_delete[#to_delete + 1] = job end
  end
end

-- Blocked jobs are ordered by priority. Take the newest of each priority, then sort them all by age.
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
  if #to_delete < limit then choose(family .. queue, redis.call('ZRANGE', family .. queue, 0, limit - #to_delete - 1)) end
end
local number, whole = #to_delete, {}
for _, job in ipairs(to_delete) do
  for _, each in ipairs(Runs.all_steps(job)) do whole[#whole + 1] = each end
end
Ending.delete_all(whole)
return Script.finish(number)
