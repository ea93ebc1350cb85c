-- mend: find what a script left half done because the server refused one of its commands, and repair it if asked to.
-- Records are the truth: jobs are indexed as their records say, and entries that contradict the records are removed. One
-- page per call.
-- ARGV: time, 1 to repair or 0 to count only, part (one of `Parts`), name of the queue ('' unless the part is queue), cursor
-- ('0' at first).
-- Returns: next cursor ('0' at the end of the part), number of faulty jobs or entries.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, ending, recent, finish, schedules

local mending, part, queue, cursor = Script.arg() == '1', Script.arg(), Script.arg(), Script.arg()
local SCAN_COUNT, found = Script.CHUNK, 0

-- One page of a hash or sorted set: fields and values, or members and scores, in turn; and the next cursor.
local function scan(command, key, from)
  local page = redis.call(command, key, from, 'COUNT', SCAN_COUNT)
  return page[2], page[1]
end

local function is_indexed(job)
  local missing = false
  Jobs.each_index(job, function(key, _, member) missing = missing or not redis.call('ZSCORE', key, member) end)
  if Runs.begins(job) and not redis.call('ZSCORE', Key.flow .. job.options.flow, job.ref) then missing = true end
  return not missing
end

-- Whether a blocked job will be unblocked in time: each open edge is stored under its blocker, which is flagged and has
-- not ended in a way that would have closed it.
local function has_valid_edges(job)
  if job.state ~= is.blocked or job.parked then return true end
  local open = 0
  for position, edge in ipairs(Edges.values_of(job)) do
    local ref = Edges.blocker_of(edge)
    if ref then
      local blocker = Runs.current_step_of(ref)
      open = open + 1
      if not blocker or not redis.call('ZSCORE', Key.dependents, Edges.name(ref, job, position)) then return false end
      if not Jobs.has(Jobs.load(ref), flag.blocks) then return false end
      if blocker.state == is.succeeded then return false end
      if Jobs.final(blocker.state) and job.options.if_blocker_fails ~= 'wait' then return false end
    end
  end
  return open > 0 and tonumber(redis.call('HGET', Key.edges, Edges.open_field(job.ref)) or 0) == open
end

-- Store the open edges of a job again, and close those whose blockers have ended or are gone.
local function restore_edges(job)
  local open = {}
  for position, edge in ipairs(Edges.values_of(job)) do
    local ref = Edges.blocker_of(edge)
    if ref then
      open[#open + 1] = { ref, position }
      redis.call('ZADD', Key.dependents, 0, Edges.name(ref, job, position))
      if Jobs.load(ref) then Jobs.mark(Jobs.load(ref), flag.blocks) end
    end
  end
  redis.call('HSET', Key.edges, Edges.open_field(job.ref), #open)
  if #open == 0 then return Jobs.enter_line(job, job.run_at) end
  for _, edge in ipairs(open) do
    local ref, position = unpack(edge)
    local blocker = Runs.current_step_of(ref)
    local how = not blocker and 'deleted' or Jobs.final(blocker.state) and name_of[blocker.state]
    if how and Ending.resolve_edge(blocker or {}, how, job, position, ref) then
      local ended = Ending.propagate(job, 'failed')
      ended[#ended + 1] = job
      return Ending.remove_unkept(ended)
    end
  end
end

local Parts = {}

-- Jobs that are missing from an index, or that wait for a blocker that will never unblock them.
function Parts.jobs()
  local page, next = scan('HSCAN', Key.jobs, cursor)
  local refs = {}
  for i = 1, #page, 2 do refs[#refs + 1] = page[i] end
  Jobs.load_all(refs)
  for _, ref in ipairs(refs) do
    local job = Script.loaded[ref]
    if job and (job.lacks_record or not is_indexed(job) or not has_valid_edges(job)) then
      found = found + 1
      if mending then
        Script.register_queue(job.queue)
        -- The record of a scheduled job was refused: only the index has its time.
        local due = job.attempt == 0 and job.state == is.waiting and redis.call('ZSCORE', Key.scheduled .. job.queue, job.seq .. ref)
        if due then job.run_at, job.changed = tonumber(due) / 1000000, true end
        Jobs.reindex(job)
        if job.state == is.blocked then job.changed = true end  -- its record may have been refused too
        if Runs.begins(job) then
          redis.call('SADD', Key.flows, job.options.flow)
          redis.call('ZADD', Key.flow .. job.options.flow, struct.unpack('>I6', job.number), ref)
        end
        if not has_valid_edges(job) then restore_edges(job) end
      end
    end
  end
  return next
end

-- Entries of a hash by ref that have no job.
local function remove_without_job(key)
  local page, next = scan('HSCAN', key, cursor)
  for i = 1, #page, 2 do
    if redis.call('HEXISTS', Key.jobs, page[i]) == 0 then
      found = found + 1
      if mending then redis.call('HDEL', key, page[i]) end
    end
  end
  return next
end

function Parts.records()
  return remove_without_job(Key.records)
end

function Parts.ready_at()
  return remove_without_job(Key.ready_at)
end

-- Entries of `edges` whose dependent is gone, and lists of blockers that an earlier job of the same id has left.
function Parts.edges()
  local page, next = scan('HSCAN', Key.edges, cursor)
  for i = 1, #page, 2 do
    local kind = string.sub(page[i], 1, 1)
    local listed = kind == '@'
    local ref = string.sub(page[i], (listed or kind == '#') and 2 or 5)
    local stored = redis.call(listed and 'HGET' or 'HEXISTS', Key.jobs, ref)
    if not stored or stored == 0 or listed and string.sub(stored, -6) ~= string.sub(page[i + 1], -6) then
      found = found + 1
      if mending then redis.call('HDEL', Key.edges, page[i]) end
    end
  end
  return next
end

-- Unique keys whose owner is gone.
function Parts.uniques()
  local page, next = scan('HSCAN', Key.uniques, cursor)
  for i = 1, #page, 2 do
    if redis.call('HEXISTS', Key.jobs, string.sub(page[i + 1], 9)) == 0 then
      found = found + 1
      if mending then
        redis.call('HDEL', Key.uniques, page[i])
        redis.call('ZREM', Key.windows, page[i])
      end
    end
  end
  return next
end

function Parts.kept()
  local page, next = scan('ZSCAN', Key.kept, cursor)
  for i = 1, #page, 2 do
    local job, stays = Jobs.load(page[i]), false
    if job then Jobs.each_index(job, function(key) stays = stays or key == Key.kept end) end
    if not stays then
      found = found + 1
      if mending then redis.call('ZREM', Key.kept, page[i]) end
    end
  end
  return next
end

-- The number of jobs that each worker holds, counted in one call: there are no more than workers have slots. Also worker
-- ids in the registry without a worker behind them.
function Parts.holding()
  local holding = {}
  for _, name in ipairs(redis.call('SMEMBERS', Key.queues)) do
    for first = 0, math.huge, Script.CHUNK do
      local members, refs = redis.call('ZRANGE', Key.held .. name, first, first + Script.CHUNK - 1), {}
      for i = 1, #members do refs[i] = string.sub(members[i], 7) end
      for _, record in ipairs(Script.fields_of(Key.records, refs)) do
        if record and string.byte(record, 2) == is.running then
          local worker = select(9, cmsgpack.unpack_limit(record, 8, 1))
          holding[worker] = (holding[worker] or 0) + 1
        end
      end
      if #members < Script.CHUNK then break end
    end
  end
  local counted = redis.call('HGETALL', Key.holding)
  for i = 1, #counted, 2 do
    local number = holding[counted[i]] or 0
    holding[counted[i]] = nil
    if tonumber(counted[i + 1]) ~= number then
      found = found + 1
      if mending then Totals.add_held(counted[i], number - tonumber(counted[i + 1])) end
    end
  end
  for worker, number in pairs(holding) do
    found = found + 1
    if mending then Totals.add_held(worker, number) end
  end
  for _, worker in ipairs(redis.call('ZRANGE', Key.workers, 0, -1)) do
    if redis.call('EXISTS', Key.worker .. worker) == 0 then
      found = found + 1
      if mending then redis.call('ZREM', Key.workers, worker) end
    end
  end
  return '0'
end

-- Members of a queue's sorted sets that contradict the records. The cursor is the number of the set and the cursor in that
-- set.
function Parts.queue()
  local keys = {}
  for _, family in ipairs({ Key.line, Key.suspects, Key.scheduled, Key.blocked, Key.held, Key.expiring, Key.parked }) do
    keys[#keys + 1] = family .. queue
  end
  for state = is.succeeded, is.broken do
    keys[#keys + 1] = Key.ended .. name_of[state] .. ':' .. queue
    keys[#keys + 1] = Key.apart .. name_of[state] .. ':' .. queue
  end
  local number, from = string.match(cursor, '^(%d+) (%d+)$')
  number, from = tonumber(number or 1), from or '0'
  local looked_at = 0
  while keys[number] do
    local page, next = scan('ZSCAN', keys[number], from)
    local members = {}
    for i = 1, #page, 2 do members[#members + 1] = page[i] end
    local _, stale = Jobs.split_stale(keys[number], members)
    found, looked_at = found + #stale, looked_at + #members
    if mending then Jobs.indexed_at(keys[number], stale) end
    if next == '0' then number, from = number + 1, '0' else from = next end
    if looked_at >= SCAN_COUNT and keys[number] then return number .. ' ' .. from end
  end
  return '0'
end

-- Schedules that an index lacks, or that `ticks` has at another time than their record.
function Parts.schedules()
  local page, next = scan('HSCAN', Key.schedules, cursor)
  for i = 1, #page, 2 do
    local name, schedule = page[i], Schedules.parse(page[i], page[i + 1])
    local at = redis.call('ZSCORE', Key.ticks, name)
    if not redis.call('ZSCORE', Key.schedule_names, name) or (at and tonumber(at)) ~= (Schedules.due_at(schedule) or false) then
      found = found + 1
      if mending then
        Schedules.known[name] = schedule
        redis.call('ZADD', Key.schedule_names, 0, name)
        Schedules.write_ticks({ name })
      end
    end
  end
  return next
end

-- Entries of an index of schedules that have no record.
local function remove_unknown_schedules(key)
  local page, next = scan('ZSCAN', key, cursor)
  for i = 1, #page, 2 do
    if redis.call('HEXISTS', Key.schedules, page[i]) == 0 then
      found = found + 1
      if mending then redis.call('ZREM', key, page[i]) end
    end
  end
  return next
end

function Parts.schedule_names()
  return remove_unknown_schedules(Key.schedule_names)
end

function Parts.ticks()
  return remove_unknown_schedules(Key.ticks)
end

local next = Parts[part]()
return Script.finish({ next, found })
