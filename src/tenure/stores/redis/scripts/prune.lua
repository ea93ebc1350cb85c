-- prune: delete up to so many finished jobs that retention does not keep; how many went. Also drops unique keys past their
-- window.
-- Arguments: limit; the default retention (seconds for succeeded and cancelled, for failed and broken, count); then for
-- each queue that has its own: name and retention.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, ending, recent, done

local limit = tonumber(Step.arg())
local function read_retention()
  return { short = tonumber(Step.arg()), long = tonumber(Step.arg()), count = tonumber(Step.arg()) }
end
local default, own = read_retention(), {}
while Step.read_so_far < #ARGV do
  local queue = Step.arg()
  own[queue] = read_retention()
end

local lapsed = redis.call('ZRANGEBYSCORE', Key.windows, '-inf', Step.score_of(Step.now), 'LIMIT', 0, Step.CHUNK)
Step.each_chunk('HDEL', Key.uniques, lapsed)
Step.each_chunk('ZREM', Key.windows, lapsed)

local pruned = 0

-- Remove as many of these jobs as there is room for, passing over those that somebody has a claim on.
local function drop(refs)
  local records, plain = Step.fields_of(Key.records, refs), {}
  for i, ref in ipairs(refs) do
    if pruned >= limit then break end
    local record = records[i]
    if string.byte(record, 3) == 0 and string.byte(record, 2) ~= is.failed then
      plain[ref] = record
      pruned = pruned + 1
    else
      local going = Ending.removable(Jobs.load(ref))
      if going then
        Ending.remove_all(going)
        pruned = pruned + 1
      end
    end
  end
  return plain
end

-- Jobs that have nothing about them but their record, and where they stand, go together.
local function drop_plainly(plain, key_of)
  local refs, places = {}, {}
  for ref, record in pairs(plain) do
    refs[#refs + 1] = ref
    local key = key_of[string.byte(record, 2)]
    places[key] = places[key] or {}
    table.insert(places[key], string.sub(record, -6) .. ref)
  end
  Step.each_chunk('HDEL', Key.jobs, refs)
  Step.each_chunk('HDEL', Key.records, refs)
  Step.each_chunk('ZREM', Key.order, refs)
  Step.to_sweep = Step.to_sweep + 2 * #refs
  for key, some in pairs(places) do Step.each_chunk('ZREM', key, some) end
end

-- A call looks past so many jobs that somebody has a claim on, no further.
local LOOK_AT = 10000

local function drop_outlived()
  local looked_at = 0
  while pruned < limit and looked_at < LOOK_AT do
    local refs = redis.call('ZRANGEBYSCORE', Key.kept, '-inf', Step.score_of(Step.now), 'LIMIT', looked_at, Step.CHUNK)
    if #refs == 0 then return end
    local before = pruned
    drop(refs)
    looked_at = looked_at + #refs - (pruned - before)
  end
end

-- Up to so many of the oldest of each of two sorted sets, merged: place and end in turn.
local function oldest(one, other, size)
  local first = redis.call('ZRANGE', one, 0, size - 1, 'WITHSCORES')
  local second = redis.call('ZRANGE', other, 0, size - 1, 'WITHSCORES')
  if #second == 0 then return first end
  local found, i, j = {}, 1, 1
  while first[i] or second[j] do
    local gap = (tonumber(first[i + 1]) or math.huge) - (tonumber(second[j + 1]) or math.huge)
    if gap == 0 then gap = struct.unpack('>I6', first[i]) - struct.unpack('>I6', second[j]) end
    local n = #found
    if gap < 0 then
      found[n + 1], found[n + 2], i = first[i], first[i + 1], i + 2
    else
      found[n + 1], found[n + 2], j = second[j], second[j + 1], j + 2
    end
  end
  return found
end

-- Jobs of a queue in two states that share one bound: those too old, and the oldest of those too many.
local function drop_oldest(queue, states, age, most)
  local one, other = Key.ended .. name_of[states[1]] .. ':' .. queue, Key.ended .. name_of[states[2]] .. ':' .. queue
  local number = redis.call('ZCARD', one) + redis.call('ZCARD', other)
  local before, size = pruned, limit - pruned
  while pruned == before and number > 0 do
    local found, refs = oldest(one, other, size), {}
    for i = 1, #found, 2 do
      if i > 2 * (number - most) and tonumber(found[i + 1]) > (Step.now - age) * 1000000 then break end
      refs[#refs + 1] = string.sub(found[i], 7)
    end
    drop_plainly(drop(refs), { [states[1]] = one, [states[2]] = other })
    if #refs < size or size >= LOOK_AT then return end
    size = size * 4  -- all of them are claimed: look behind them
  end
end

drop_outlived()
for _, queue in ipairs(redis.call('SMEMBERS', Key.queues)) do
  local retention = own[queue] or default
  if pruned < limit then drop_oldest(queue, { is.succeeded, is.cancelled }, retention.short, retention.count) end
  if pruned < limit then drop_oldest(queue, { is.failed, is.broken }, retention.long, retention.count) end
end
return Step.done(pruned)
