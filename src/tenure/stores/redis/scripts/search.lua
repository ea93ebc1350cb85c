-- search: one page of jobs. Looks at a limited number of jobs. Reads only.
-- ARGV: time, state (-1 for any, newest first), queue, task, tag with = before it ('' for any of these), limit; then the
-- cursor: group, score and seq of the last row of the previous page, '' at first; then of waiting jobs 1 for the scheduled
-- ones only, 0 for those in line only; of final jobs the time of the latest end to list; most jobs to look at; length to
-- which jobs are shortened; filter as `Filtering.passes` takes it, packed ('' for each of these that is not given).
-- Returns: jobs as `Reading.describe` gives them, next cursor (false at the end), number of jobs looked at.
-- include: script, totals, jobs, edges, reading, filtering

local state, queue, task, tag, limit = tonumber(Script.arg()), Script.arg(), Script.arg(), Script.arg(), tonumber(Script.arg())
local seen = { group = tonumber(Script.arg()) or 1, score = tonumber(Script.arg()), seq = tonumber(Script.arg()) }
local part, latest, look, brief, filter = Script.arg(), tonumber(Script.arg()), tonumber(Script.arg()), tonumber(Script.arg()), Script.arg()
filter = filter ~= '' and cmsgpack.unpack(filter)

local MAX_SEEN, PAGE = 20000, 100  -- rows that a call reads, also those of jobs that are gone; rows that it reads together
local MAX_BYTES = 8000000  -- bytes that a call searches for a text, roughly

-- The position of a row. Text is not compared, because Redis orders it by bytes and Lua by locale.
local function row(member, score)
  if state < 0 then return { ref = member, score = tonumber(score), seq = 0 } end
  return { ref = string.sub(member, 7), score = tonumber(score), seq = struct.unpack('>I6', member) }
end

local downwards = state < 0 or Jobs.final(state)

local function before(one, other)
  if one.score ~= other.score then return (one.score < other.score) ~= downwards end
  return one.seq ~= other.seq and (one.seq < other.seq) ~= downwards
end

local RANGE = downwards and 'ZREVRANGE' or 'ZRANGE'

-- An iterator over the rows of a sorted set, from after the given row; without one, from the latest end to list.
local function walk(key, after)
  local rank = 0
  if not after and latest and Jobs.final(state) then
    rank = redis.call('ZCOUNT', key, '(' .. Script.score_of(latest), '+inf')
  elseif after then
    local low, high = 0, redis.call('ZCARD', key)
    while low < high do
      local middle = math.floor((low + high) / 2)
      if before(after, row(unpack(redis.call(RANGE, key, middle, middle, 'WITHSCORES')))) then
        high = middle
      else
        low = middle + 1
      end
    end
    rank = low
  end
  local page, at = {}, 1
  return function()
    if at > #page then
      page, at = redis.call(RANGE, key, rank, rank + PAGE - 1, 'WITHSCORES'), 1
      rank = rank + PAGE
    end
    at = at + 2
    return page[at - 2] and row(page[at - 2], page[at - 1])
  end
end

-- An iterator over the latest jobs, newest first. Some of them may be gone.
local function walk_recent(after)
  local low, high = 0, redis.call('LLEN', Key.recent)
  while after and low < high do
    local middle = math.floor((low + high) / 2)
    local number = struct.unpack('>I6', redis.call('LINDEX', Key.recent, middle))
    if number < after.score then low = middle + 1 else high = middle end
  end
  local last, page = high - 1, {}
  return function()
    if #page == 0 and last >= 0 then
      page = redis.call('LRANGE', Key.recent, math.max(0, last - PAGE + 1), last)
      last = last - PAGE
    end
    local entry = table.remove(page)
    return entry and row(string.sub(entry, 7), struct.unpack('>I6', entry))
  end
end

-- An iterator over running jobs by start. The index has them by the end of their leases.
local function walk_running(queues, after)
  local rows = {}
  for _, name in ipairs(queues) do
    local members, refs = redis.call('ZRANGE', Key.held .. name, 0, 9999), {}
    for i, member in ipairs(members) do refs[i] = string.sub(member, 7) end
    for i, record in ipairs(Script.fields_of(Key.records, refs)) do
      if record and string.byte(record, 2) == is.running then
        rows[#rows + 1] = row(members[i], (select(10, cmsgpack.unpack_limit(record, 9, 1))))
      end
    end
  end
  table.sort(rows, before)
  local at = 0
  return function()
    repeat at = at + 1 until not (rows[at] and after) or before(after, rows[at])
    return rows[at]
  end
end

-- The iterators of one group of a listing. All rows of a group come before those of the next.
local function walks(number, after)
  local queues = queue ~= '' and { queue } or redis.call('SMEMBERS', Key.queues)
  if state < 0 then return ({ { walk_recent(after) }, { walk(Key.order, after) } })[number] end
  if state == is.failed and task ~= '' then return number == 1 and { walk(Key.failures .. task, after) } end
  if state == is.running then return number == 1 and { walk_running(queues, after) } end
  local groups = { { Key.blocked } }
  if state == is.waiting then
    groups = { part ~= '1' and { Key.line, Key.suspects } or {}, part ~= '0' and { Key.scheduled } or {} }
  end
  if Jobs.final(state) then groups = { { Key.ended .. name_of[state] .. ':', Key.apart .. name_of[state] .. ':' } } end
  if not groups[number] then return end
  local found = {}
  for _, family in ipairs(groups[number]) do
    for _, name in ipairs(queues) do found[#found + 1] = walk(family .. name, after) end
  end
  return found
end

-- An iterator over the merged rows of one group.
local function merged(number, after)
  local sources, heads = walks(number, after), {}
  if not sources then return end
  for i, source in ipairs(sources) do heads[i] = source() or false end
  return function()
    local first
    for i, head in ipairs(heads) do
      if head and (not first or before(head, heads[first])) then first = i end
    end
    if not first then return end
    local found = heads[first]
    heads[first] = sources[first]() or false
    return found
  end
end

-- Whether a row still stands for a job: in a listing of one state the job is in that state; in a listing of all jobs the
-- ref has not been enqueued again.
local function alive(found, stored, record)
  if not stored then return false end
  if state >= 0 then return (record and string.byte(record, 2) or is.waiting) == state end
  return struct.unpack('>I6', string.sub(stored, -6)) == found.score
end

local function named(stored)
  if queue == '' and task == '' and tag == '' then return true end
  local _, _, its_task, its_queue, _, options = cmsgpack.unpack_limit(stored, 5, 10)
  if queue ~= '' and its_queue ~= queue or task ~= '' and its_task ~= task then return false end
  if tag == '' then return true end
  for _, each in ipairs(options.tags or {}) do
    if '=' .. each == tag then return true end
  end
  return false
end

local searched = 0  -- bytes

local function wanted(stored, record)
  if not named(stored) then return false end
  if not filter then return true end
  if filter.text then searched = searched + #stored + #(record or '') end
  return Filtering.passes(stored, record, filter)
end

local jobs, looked_at, rows_seen, last = {}, 0, 0, nil
local number, after = state < 0 and 1 or seen.group, seen.score and seen
local rows = merged(number, after)
while rows do
  local found = rows()
  if not found then
    number = number + 1
    rows = merged(number, state < 0 and after)
  elseif #jobs == limit or looked_at == look or rows_seen == MAX_SEEN or searched > MAX_BYTES then
    return { jobs, last or false, looked_at }
  else
    rows_seen = rows_seen + 1
    last = string.format('%d %.17g %d', number, found.score, found.seq)
    local stored, record = redis.call('HGET', Key.jobs, found.ref), redis.call('HGET', Key.records, found.ref)
    if alive(found, stored, record) then
      looked_at = looked_at + 1
      if wanted(stored, record) then
        local described = Reading.describe(found.ref, stored, record)
        jobs[#jobs + 1] = brief and Filtering.shorten(described, brief) or described
      end
    end
  end
end
return { jobs, false, looked_at }
