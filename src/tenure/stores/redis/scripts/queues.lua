-- queues: the counts of these queues, and the ages of their oldest jobs in line. Reads only. Stops early if it has looked at
-- many jobs: the caller goes on with the queues that are missing in the reply.
-- ARGV: time, most priorities of a line to look at, names of queues.
-- Returns: for each queue { name, 1 if paused, seconds since the job in line that has been due the longest became due (false
-- if there is none), number in line, scheduled, blocked, running, succeeded, failed, cancelled, broken, totals (name and
-- number in turn) }; false for a queue that is not known.
-- include: script, totals, jobs

local PRIORITIES, ENOUGH = tonumber(Script.arg()), 100  -- jobs after which no further queue is looked at

local found, first_jobs, index_of = {}, {}, {}

-- Add the first job of each of the first priorities of a sorted set.
local function add_first_jobs(key, index)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  for _ = 1, PRIORITIES do
    if not first[1] then return end
    local n = #first_jobs + 1
    first_jobs[n], index_of[n] = string.sub(first[1], 7), index
    first = redis.call('ZRANGEBYSCORE', key, '(' .. first[2], '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  end
end

local function describe(queue, index)
  if redis.call('SISMEMBER', Key.queues, queue) == 0 then return false end
  local function number(...)
    local all = 0
    for _, family in ipairs({ ... }) do all = all + redis.call('ZCARD', family .. queue) end
    return all
  end
  local in_line, suspects = number(Key.line), number(Key.suspects)
  if in_line > 0 then add_first_jobs(Key.line .. queue, index) end
  if suspects > 0 then add_first_jobs(Key.suspects .. queue, index) end
  local info = {
    queue, redis.call('SISMEMBER', Key.paused, queue), false, in_line + suspects,
    number(Key.scheduled), number(Key.blocked), number(Key.held),
  }
  for state = is.succeeded, is.broken do
    info[#info + 1] = number(Key.ended .. name_of[state] .. ':', Key.apart .. name_of[state] .. ':')
  end
  info[#info + 1] = redis.call('HGETALL', Key.totals .. queue)
  return info
end

for index, queue in ipairs(Script.remaining_args()) do
  if #first_jobs >= ENOUGH then break end
  found[index] = describe(queue, index)
end

local due_since, ready_times = {}, Script.fields_of(Key.ready_at, first_jobs)
for i, stored in ipairs(Script.fields_of(Key.jobs, first_jobs)) do
  if stored then
    local index, at = index_of[i], struct.unpack('>d', stored, 3)
    if ready_times[i] then at = math.max(at, (struct.unpack('>d', ready_times[i]))) end
    due_since[index] = math.min(due_since[index] or math.huge, at)
  end
end
for index, at in pairs(due_since) do found[index][3] = string.format('%.17g', math.max(Script.now - at, 0)) end
return found
