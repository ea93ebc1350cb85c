-- queues: count the jobs of every queue: name, whether paused, how many in line, scheduled, blocked, running, succeeded,
-- failed, cancelled, broken; and its totals, each name followed by its number.
-- include: step, totals, jobs

local found = {}
for i, queue in ipairs(redis.call('SMEMBERS', Key.queues)) do
  local function number(...)
    local all = 0
    for _, family in ipairs({ ... }) do all = all + redis.call('ZCARD', family .. queue) end
    return all
  end
  local told = {
    queue, redis.call('SISMEMBER', Key.paused, queue),
    number(Key.line, Key.suspects), number(Key.scheduled), number(Key.blocked), number(Key.held),
  }
  for state = is.succeeded, is.broken do
    told[#told + 1] = number(Key.ended .. name_of[state] .. ':', Key.apart .. name_of[state] .. ':')
  end
  told[#told + 1] = redis.call('HGETALL', Key.totals .. queue)
  found[i] = told
end
return found
