-- prune: delete up to `limit` finished jobs that retention does not keep, a run as a whole. Also deletes unique keys past
-- their window, and forgets queues that have long been empty. Looks at one page of queues per call.
-- ARGV: time, scan cursor among the queues ('0' at first), limit, seconds that a queue must have been empty; the default
-- retention: seconds for succeeded and cancelled jobs, seconds for failed and broken ones, number of jobs; then for each
-- queue that has another retention its name and these three.
-- Returns: number of deleted jobs, a run counting once; 1 if the call stopped only because it had removed enough jobs for
-- one script; next cursor ('0' at the end).
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, ending, removal_batch, recent, finish

local QUEUES = 50  -- queues that one call looks at, roughly

local cursor, limit, quiet = Script.arg(), tonumber(Script.arg()), tonumber(Script.arg())
local function read_retention()
  return { short = tonumber(Script.arg()), long = tonumber(Script.arg()), count = tonumber(Script.arg()) }
end
local default, by_queue = read_retention(), {}
while Script.args_read < #ARGV do
  local queue = Script.arg()
  by_queue[queue] = read_retention()
end

local lapsed = redis.call('ZRANGEBYSCORE', Key.windows, '-inf', Script.score_of(Script.now), 'LIMIT', 0, Script.CHUNK)
Script.call_in_chunks('HDEL', Key.uniques, lapsed)
Script.call_in_chunks('ZREM', Key.windows, lapsed)

local MAX_REMOVED = 5000  -- jobs that one call removes, steps of runs included, unless a single run has more

local pruned, removed = 0, 0

local function is_done()
  return pruned >= limit or removed >= MAX_REMOVED
end

-- Remove as many of these jobs as the limits allow, skipping those that are still claimed. Most have only a record and one
-- index, given by their state in `key_of`: they go together, and so do runs of such jobs.
local function remove(refs, key_of, members)
  local records, removing, last_steps, ended = Script.fields_of(Key.records, refs), RemovalBatch.begin(), {}, {}
  -- An index entry that the record contradicts is removed: see `Jobs.split_stale`.
  local function remove_stale(ref, member)
    for _, key in pairs(key_of or { Key.kept }) do redis.call('ZREM', key, key_of and member or ref) end
    local job = Jobs.load(ref)
    if job then Jobs.reindex(job) else redis.call('HDEL', Key.records, ref) end
  end
  local function remove_singly(ref, member)
    local job = Jobs.load(ref)
    if not job or not Jobs.final(job.state) then return remove_stale(ref, member) end
    local to_remove = Ending.removable(job)
    if to_remove then
      Ending.remove_all(to_remove)
      pruned, removed = pruned + 1, removed + #to_remove
    end
  end
  for i, ref in ipairs(refs) do
    if pruned + #last_steps >= limit or removed >= MAX_REMOVED then break end
    local record = records[i]
    local state, flags = string.byte(record or '', 2, 3)
    if not record or key_of and not key_of[state] then
      remove_stale(ref, members and members[i])
    elseif state == is.failed or not key_of then
      remove_singly(ref, members and members[i])
    elseif flags == 0 then
      RemovalBatch.add(removing, ref, record, key_of[state])
      pruned, removed = pruned + 1, removed + 1
    elseif flags == flag.step then
      last_steps[#last_steps + 1], ended[#ended + 1] = ref, record
    else
      remove_singly(ref, members[i])
    end
  end
  local first, size = 1, 10
  while last_steps[first] and removed < MAX_REMOVED do
    local chunk, before = { unpack(last_steps, first, math.min(first + size - 1, #last_steps)) }, removed
    for n, run in ipairs(RemovalBatch.runs_of(chunk)) do
      if run then
        local record = ended[first + n - 1]
        RemovalBatch.add_run(removing, run)
        RemovalBatch.add(removing, run.last, record, key_of[string.byte(record, 2)])
        pruned, removed = pruned + 1, removed + #run.steps + 1
      else
        remove_singly(chunk[n], string.sub(ended[first + n - 1], -6) .. chunk[n])
      end
    end
    -- Only the runs removed so far tell how long runs are.
    first, size = first + #chunk, (MAX_REMOVED - removed) * #chunk / math.max(removed - before, #chunk)
    size = math.min(math.max(math.floor(size), 1), Script.CHUNK)
  end
  RemovalBatch.flush(removing)
end

-- A call looks past this many claimed jobs and no further.
local LOOK_AT = 10000

local function remove_past_keep()
  local looked_at = 0
  while not is_done() and looked_at < LOOK_AT do
    local refs = redis.call('ZRANGEBYSCORE', Key.kept, '-inf', Script.score_of(Script.now), 'LIMIT', looked_at, Script.CHUNK)
    if #refs == 0 then return end
    local before = pruned
    remove(refs)
    looked_at = looked_at + #refs - (pruned - before)
  end
end

-- Up to `size` of the oldest members of each of two sorted sets, merged: member and score in turn.
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

-- Whether the oldest job of a sorted set ended at least `age` seconds ago.
local function any_older_than(key, age)
  local ended = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  return ended and tonumber(ended) <= (Script.now - age) * 1000000
end

-- Remove jobs of a queue in two states that share a limit: those older than `age` seconds, and the oldest beyond `most`.
local function remove_oldest(queue, states, age, most)
  local one, other = Key.ended .. name_of[states[1]] .. ':' .. queue, Key.ended .. name_of[states[2]] .. ':' .. queue
  if redis.call('EXISTS', one, other) == 0 then return end
  local number = redis.call('ZCARD', one) + redis.call('ZCARD', other)
  if number <= most and not (any_older_than(one, age) or any_older_than(other, age)) then return end
  local before, size = pruned, limit - pruned
  while pruned == before and number > 0 do
    local found, refs, members = oldest(one, other, size), {}, {}
    for i = 1, #found, 2 do
      if i > 2 * (number - most) and tonumber(found[i + 1]) > (Script.now - age) * 1000000 then break end
      refs[#refs + 1], members[#members + 1] = string.sub(found[i], 7), found[i]
    end
    remove(refs, { [states[1]] = one, [states[2]] = other }, members)
    if #refs < size or size >= LOOK_AT then return end
    size = size * 4  -- all of these are claimed: look behind them
  end
end

-- Whether a queue has no job in any state, an empty inbox, and is not paused.
local function empty(queue)
  local keys = { Key.inbox .. queue, Key.line .. queue, Key.suspects .. queue, Key.scheduled .. queue, Key.blocked .. queue, Key.held .. queue }
  for state = is.succeeded, is.broken do
    keys[#keys + 1] = Key.ended .. name_of[state] .. ':' .. queue
    keys[#keys + 1] = Key.apart .. name_of[state] .. ':' .. queue
  end
  return redis.call('EXISTS', unpack(keys)) == 0 and redis.call('SISMEMBER', Key.paused, queue) == 0
end

-- Forget an empty queue that was empty with the same totals `quiet` seconds ago; else record that it is empty now.
local function forget_quiet(queue)
  local key, stored, totals = Key.totals .. queue, {}, 0
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do stored[fields[i]] = tonumber(fields[i + 1]) end
  for what, number in pairs(stored) do
    if what ~= 'longest' and what ~= 'quiet_since' and what ~= 'quiet_totals' then totals = totals + number end
  end
  local since = stored.quiet_since
  if not since or since > Script.now or stored.quiet_totals ~= totals then
    redis.call('HSET', key, 'quiet_since', string.format('%.17g', Script.now), 'quiet_totals', totals)
  elseif since <= Script.now - quiet then
    redis.call('SREM', Key.queues, queue)
    redis.call('DEL', key, Key.marker .. queue)
    redis.call('ZREM', Key.ready, queue)
    redis.call('ZREM', Key.timed, queue)
  end
end

if cursor == '0' then remove_past_keep() end
local next_cursor, queues = unpack(redis.call('SSCAN', Key.queues, cursor, 'COUNT', QUEUES))
for _, queue in ipairs(queues) do
  local retention = by_queue[queue] or default
  if not is_done() then remove_oldest(queue, { is.succeeded, is.cancelled }, retention.short, retention.count) end
  if not is_done() then remove_oldest(queue, { is.failed, is.broken }, retention.long, retention.count) end
  if not is_done() and empty(queue) then forget_quiet(queue) end
end
return Script.finish({ pruned, removed >= MAX_REMOVED and 1 or 0, is_done() and cursor or next_cursor })
