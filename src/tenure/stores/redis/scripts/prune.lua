-- prune: delete up to so many finished jobs that retention does not keep; how many went, a run counting once, and 1 if it stopped
-- only because it had removed enough jobs for one step; and where to go on among the queues, of which it looks at about fifty.
-- Also drops unique keys past their window, and forgets queues that have long been empty.
-- Arguments: where to go on, limit, seconds for which a queue must have been empty; the default retention (seconds for succeeded and cancelled, for failed and broken, count); then for
-- each queue that has its own: name and retention.
-- include: step, draining, totals, jobs, flows, runs, unique, edges, ending, removing, recent, done

local QUEUES = 50  -- that one step looks at, about

local at, limit, quiet = Step.arg(), tonumber(Step.arg()), tonumber(Step.arg())
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

local MOST = 5000  -- jobs that a step removes, those of runs among them, unless one run has more

local pruned, gone = 0, 0

local function done()
  return pruned >= limit or gone >= MOST
end

-- Remove as many of these jobs as there is room for, passing over those that somebody has a claim on. Most have nothing about
-- them but their record and where they stand, by their state: they go together, and so do runs of such.
local function drop(refs, key_of, places)
  local records, removing, lasts, ended = Step.fields_of(Key.records, refs), Removing.begin(), {}, {}
  -- What an index has that the records do not know goes: see `Jobs.agreeing`.
  local function drop_stale(ref, place)
    for _, key in pairs(key_of or { Key.kept }) do redis.call('ZREM', key, key_of and place or ref) end
    local job = Jobs.load(ref)
    if job then Jobs.restore(job) else redis.call('HDEL', Key.records, ref) end
  end
  local function drop_singly(ref, place)
    local job = Jobs.load(ref)
    if not job or not Jobs.final(job.state) then return drop_stale(ref, place) end
    local going = Ending.removable(job)
    if going then
      Ending.remove_all(going)
      pruned, gone = pruned + 1, gone + #going
    end
  end
  for i, ref in ipairs(refs) do
    if pruned + #lasts >= limit or gone >= MOST then break end
    local record = records[i]
    local state, flags = string.byte(record or '', 2, 3)
    if not record or key_of and not key_of[state] then
      drop_stale(ref, places and places[i])
    elseif state == is.failed or not key_of then
      drop_singly(ref, places and places[i])
    elseif flags == 0 then
      Removing.add(removing, ref, record, key_of[state])
      pruned, gone = pruned + 1, gone + 1
    elseif flags == flag.step then
      lasts[#lasts + 1], ended[#ended + 1] = ref, record
    else
      drop_singly(ref, places[i])
    end
  end
  local first, size = 1, 10
  while lasts[first] and gone < MOST do
    local some, before = { unpack(lasts, first, math.min(first + size - 1, #lasts)) }, gone
    for n, run in ipairs(Removing.runs_of(some)) do
      if run then
        local record = ended[first + n - 1]
        Removing.add_run(removing, run)
        Removing.add(removing, run.last, record, key_of[string.byte(record, 2)])
        pruned, gone = pruned + 1, gone + #run.steps + 1
      else
        drop_singly(some[n], string.sub(ended[first + n - 1], -6) .. some[n])
      end
    end
    -- How long runs are only these tell.
    first, size = first + #some, (MOST - gone) * #some / math.max(gone - before, #some)
    size = math.min(math.max(math.floor(size), 1), Step.CHUNK)
  end
  Removing.go(removing)
end

-- A call looks past so many jobs that somebody has a claim on, no further.
local LOOK_AT = 10000

local function drop_outlived()
  local looked_at = 0
  while not done() and looked_at < LOOK_AT do
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

-- Whether the oldest of these has ended so many seconds ago.
local function any_by(key, age)
  local ended = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  return ended and tonumber(ended) <= (Step.now - age) * 1000000
end

-- Jobs of a queue in two states that share one bound: those too old, and the oldest of those too many.
local function drop_oldest(queue, states, age, most)
  local one, other = Key.ended .. name_of[states[1]] .. ':' .. queue, Key.ended .. name_of[states[2]] .. ':' .. queue
  if redis.call('EXISTS', one, other) == 0 then return end
  local number = redis.call('ZCARD', one) + redis.call('ZCARD', other)
  if number <= most and not (any_by(one, age) or any_by(other, age)) then return end
  local before, size = pruned, limit - pruned
  while pruned == before and number > 0 do
    local found, refs, places = oldest(one, other, size), {}, {}
    for i = 1, #found, 2 do
      if i > 2 * (number - most) and tonumber(found[i + 1]) > (Step.now - age) * 1000000 then break end
      refs[#refs + 1], places[#places + 1] = string.sub(found[i], 7), found[i]
    end
    drop(refs, { [states[1]] = one, [states[2]] = other }, places)
    if #refs < size or size >= LOOK_AT then return end
    size = size * 4  -- all of them are claimed: look behind them
  end
end

-- Whether no job of a queue is stored in any state, its inbox is empty and it is not paused.
local function empty(queue)
  local keys = { Key.inbox .. queue, Key.line .. queue, Key.suspects .. queue, Key.scheduled .. queue, Key.blocked .. queue, Key.held .. queue }
  for state = is.succeeded, is.broken do
    keys[#keys + 1] = Key.ended .. name_of[state] .. ':' .. queue
    keys[#keys + 1] = Key.apart .. name_of[state] .. ':' .. queue
  end
  return redis.call('EXISTS', unpack(keys)) == 0 and redis.call('SISMEMBER', Key.paused, queue) == 0
end

-- Forget an empty queue that was empty `quiet` seconds ago with the same totals; else note that it is empty now.
local function forget_quiet(queue)
  local key, told, totals = Key.totals .. queue, {}, 0
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do told[fields[i]] = tonumber(fields[i + 1]) end
  for what, number in pairs(told) do
    if what ~= 'longest' and what ~= 'quiet_since' and what ~= 'quiet_totals' then totals = totals + number end
  end
  local since = told.quiet_since
  if not since or since > Step.now or told.quiet_totals ~= totals then
    redis.call('HSET', key, 'quiet_since', string.format('%.17g', Step.now), 'quiet_totals', totals)
  elseif since <= Step.now - quiet then
    redis.call('SREM', Key.queues, queue)
    redis.call('DEL', key, Key.marker .. queue)
    redis.call('ZREM', Key.ready, queue)
    redis.call('ZREM', Key.timed, queue)
  end
end

if at == '0' then drop_outlived() end
local next_at, queues = unpack(redis.call('SSCAN', Key.queues, at, 'COUNT', QUEUES))
for _, queue in ipairs(queues) do
  local retention = own[queue] or default
  if not done() then drop_oldest(queue, { is.succeeded, is.cancelled }, retention.short, retention.count) end
  if not done() then drop_oldest(queue, { is.failed, is.broken }, retention.long, retention.count) end
  if not done() and empty(queue) then forget_quiet(queue) end
end
return Step.done({ pruned, gone >= MOST and 1 or 0, done() and at or next_at })
