-- Leases jobs to workers.

local Leasing = {
  BATCH = 1000,  -- jobs of a queue that one call moves to the line, or cancels because they expired
  SUSPECTS = 100,  -- suspects of a queue that are searched for one of an isolated task
  LOOK_AHEAD = 1000,  -- jobs of a line that are searched for tasks that the request does not skip
  passed_over = {},  -- tasks that the request skips and that have a job in line
  has_more = {},  -- by queue: true if it has jobs outside the line, or entries in its inbox
  refs = {}, stored = {}, records = {}, edges = {}, attributes = {},  -- of the leased jobs, in order
  moved = false,  -- { index, job } of each leased job that has been moved to the back of the line, if there are any
}

-- Up to `BATCH` jobs of a sorted set scored by time whose time has come, earliest first.
function Leasing.due_jobs(key)
  return Jobs.indexed_at(key, redis.call('ZRANGEBYSCORE', key, '-inf', Script.score_of(Script.now), 'LIMIT', 0, Leasing.BATCH))
end

function Leasing.expire(job)
  Script.add_consequence('expired', job)
  Ending.finish_and_propagate(job, is.cancelled, nil, RecordedError.EXPIRED)
end

function Leasing.cancel_expired(queue)
  for _, each in ipairs(Leasing.due_jobs(Key.expiring .. queue)) do
    local job = Jobs.load(each.ref)
    -- The end of the previous job may have ended this one, which waited for it.
    if job and not Jobs.final(job.state) then Leasing.expire(job) end
  end
end

function Leasing.promote(queue)
  local jobs = Leasing.due_jobs(Key.scheduled .. queue)
  if #jobs == 0 then return end
  local last = Script.draw_seqs(#jobs)
  for i, job in ipairs(jobs) do
    Jobs.remove_from_indexes(job)
    Jobs.move_to_back(job, Script.seq_of(last + i), job.run_at)
    job.run_at = nil
    Jobs.add_to_indexes(job)
  end
end

-- Have the queue checked when its next job becomes due or expires.
function Leasing.set_due(queue)
  for _, family in ipairs({ Key.scheduled, Key.expiring }) do
    local score = redis.call('ZRANGE', family .. queue, 0, 0, 'WITHSCORES')[2]
    if score then Script.set_due(queue, tonumber(score) / 1000000) end
  end
end

-- Add the attributes that a step reads to the reply. The step must be the last one leased so far.
function Leasing.add_attributes(ref, options)
  if not options.reads then return end
  local values = Script.fields_of(Key.attributes .. (options.run or ref), options.reads)
  Leasing.attributes[#Leasing.attributes + 1] = { #Leasing.refs - 1, values }
end

-- Lease one job of any kind.
function Leasing.hand_out(request, job, stored, alone)
  Jobs.remove_from_indexes(job)
  job.state = is.running
  job.attempt, job.fence = job.attempt + 1, job.fence + 1
  job.nonce, job.worker, job.started, job.result = request.nonce, request.worker, Script.now, nil
  Jobs.set(job, flag.solo, alone)
  local seconds = math.min(job.options.lease or request.ttl, request.at_most)
  job.held_until = Script.now + seconds
  Totals.raise_longest_lease(job.queue, seconds)
  Jobs.add_to_indexes(job)
  local n = #Leasing.refs + 1
  Leasing.refs[n], Leasing.stored[n], Leasing.records[n] = job.ref, stored, Jobs.pack(job)
  if job.options.edges then Leasing.edges[#Leasing.edges + 1] = { n - 1, Edges.values_of(job) } end
  if Jobs.has_moved(job) then
    Leasing.moved = Leasing.moved or {}
    table.insert(Leasing.moved, { n - 1, job })
  end
  Leasing.add_attributes(job.ref, job.options)
end

-- Lease jobs whose members were taken out of their line. Returns how many. Plain jobs that were never leased go together:
-- their records differ only in the seq, so the reply leaves them out and the caller rebuilds them.
function Leasing.hand_out_all(request, queue, popped)
  local sub, byte, out, loaded = string.sub, string.byte, Leasing, Script.loaded
  local refs, before = {}, #out.refs
  for i = 1, #popped, 2 do refs[#refs + 1] = sub(popped[i], 7) end
  local stored, known = Script.fields_of(Key.jobs, refs), Script.fields_of(Key.records, refs)
  local head = '\206\0\0\0\1\176' .. request.nonce
    .. cmsgpack.pack(1, 0, 0, request.worker, Script.now, nil, nil, nil, nil, nil) .. '\207\0\0'
  local fresh = { [0] = '\159' .. string.char(is.running, 0) .. head }
  local held_until = Script.score_of(Script.now + request.ttl)
  local held, records, n = {}, {}, 0
  for i = 1, #refs do
    local ref, kind = refs[i], stored[i] and byte(stored[i], 11)
    if kind and not fresh[kind] and kind % 2 == 0 then
      fresh[kind] = '\159' .. string.char(is.running, bit.band(kind, flag.blocks + flag.step)) .. head
    end
    if not kind then  -- the job is gone, or its enqueue was refused midway
    elseif not known[i] and not loaded[ref] and fresh[kind] then
      local member, next = popped[2 * i - 1], #out.refs + 1
      held[n + 1], held[n + 2] = held_until, member
      records[n + 1], records[n + 2] = ref, fresh[kind] .. sub(member, 1, 6)
      n = n + 2
      out.refs[next], out.stored[next], out.records[next] = ref, stored[i], false
      if kind > flag.step then out.add_attributes(ref, (select(6, cmsgpack.unpack_limit(stored[i], 5, 10)))) end
    else
      local job = loaded[ref] or Jobs.parse(ref, stored[i], known[i])
      local expiry = job.attempt == 0 and Jobs.expires_at(job)
      if job.state ~= is.waiting or job.run_at then  -- a stale entry: see `Jobs.split_stale`
        Jobs.reindex(job)
      elseif expiry and expiry <= Script.now then
        Leasing.expire(job)
      else
        Leasing.hand_out(request, job, stored[i])
      end
    end
  end
  if n > 0 then
    Script.call_in_chunks('ZADD', Key.held .. queue, held)
    Script.call_in_chunks('HSET', Key.records, records)
    Totals.add_held(request.worker, n / 2)
    Script.set_due(queue, Script.now + request.ttl)
    Totals.raise_longest_lease(queue, request.ttl)
  end
  return #out.refs - before
end

-- Lease up to `room` jobs from the front of a line. Returns how many.
function Leasing.hand_out_line(request, queue, room)
  local leased, looked_at, left = 0, 0, true
  -- Expired jobs do not count towards `room`. More than `BATCH` of them are left for the next call.
  while left and leased < room and looked_at < room + Leasing.BATCH do
    local wanted = math.min(room - leased, Script.CHUNK)
    local popped = redis.call('ZPOPMIN', Key.line .. queue, wanted)
    leased = leased + Leasing.hand_out_all(request, queue, popped)
    looked_at = looked_at + #popped / 2
    left = #popped == 2 * wanted
  end
  if left and redis.call('EXISTS', Key.line .. queue) == 1 then
    Script.fill_markers(Key.marker .. queue, 1)
    Script.call_listeners(queue, 1)
  else
    Leasing.mark_empty(queue)
  end
  return leased
end

-- The line of a queue is empty: remove its markers, and the queue from `ready` if nothing else is left in it.
function Leasing.mark_empty(queue)
  redis.call('DEL', Key.marker .. queue)
  local more = Leasing.has_more[queue] and redis.call('EXISTS', Key.suspects .. queue, Key.inbox .. queue) > 0
  if not more then redis.call('ZREM', Key.ready, queue) end
end

-- Lease up to `room` jobs from the front of a line, leaving those of skipped tasks where they are. Returns how many.
function Leasing.hand_out_unskipped(request, queue, room)
  local members = redis.call('ZRANGE', Key.line .. queue, 0, Leasing.LOOK_AHEAD - 1)
  local refs, chosen, popped, n = {}, {}, {}, 0
  for i = 1, #members do refs[i] = string.sub(members[i], 7) end
  local stored = Script.fields_of(Key.jobs, refs)
  for i = 1, #members do
    if n >= room and room > 0 then break end
    local task = stored[i] and select(3, cmsgpack.unpack_limit(stored[i], 2, 10))
    if task and request.skip[task] then
      Leasing.passed_over[task] = true
    elseif room > 0 then
      n = n + 1
      chosen[n], popped[2 * n - 1], popped[2 * n] = members[i], members[i], 0
    end
  end
  Script.call_in_chunks('ZREM', Key.line .. queue, chosen)
  local leased = Leasing.hand_out_all(request, queue, popped)
  if redis.call('EXISTS', Key.line .. queue) == 0 then
    Leasing.mark_empty(queue)
  elseif n > 0 and n == room then
    -- Only if `room` was filled: otherwise this caller would be the first to be woken for the jobs it has skipped.
    Script.fill_markers(Key.marker .. queue, 1)
    Script.call_listeners(queue, 1)
  end
  return leased
end

-- The first suspect of these queues that the request may lease, and whether there is one that it may not.
function Leasing.suspect(request, queues)
  local first, others, isolated
  local skip = request.skip
  local last = (request.solo or request.isolated == '') and not skip and 0 or Leasing.SUSPECTS - 1
  for _, queue in ipairs(queues) do
    local key = Key.suspects .. queue
    for _, job in ipairs(Jobs.indexed_at(key, redis.call('ZRANGE', key, 0, last))) do
      if first and (others or request.solo) and not skip then return first, others end
      if request.isolated ~= '' and not isolated then
        isolated = {}
        for _, task in ipairs(cmsgpack.unpack(request.isolated)) do isolated[task] = true end
      end
      if skip and skip[job.task] then
        Leasing.passed_over[job.task] = true
      elseif request.solo or isolated and isolated[job.task] then
        first = first or job
      else
        others = true
      end
    end
  end
  return first, others
end

-- Seconds until the next scheduled job of these queues is due, as text; false if there is none.
function Leasing.due_in(queues)
  local soonest = math.huge
  for _, queue in ipairs(queues) do
    local score = redis.call('ZRANGE', Key.scheduled .. queue, 0, 0, 'WITHSCORES')[2]
    if score then soonest = math.min(soonest, tonumber(score) / 1000000) end
  end
  return soonest < math.huge and string.format('%.17g', math.max(0, soonest - Script.now))
end

-- The queues that are not paused; of these, the ones with jobs outside the line or an inbox; whether any inbox has entries.
function Leasing.unpaused(queues)
  local open, timed, inbox, paused = {}, {}, false, {}
  for _, queue in ipairs(redis.call('SMEMBERS', Key.paused)) do paused[queue] = true end
  for _, queue in ipairs(queues) do
    local more = redis.call('EXISTS', Key.inbox .. queue, Key.expiring .. queue, Key.scheduled .. queue, Key.suspects .. queue)
    if more > 0 then
      Leasing.has_more[queue] = true
      if redis.call('EXISTS', Key.inbox .. queue) == 1 then
        inbox = true
        redis.call('ZADD', Key.ready, 0, queue)  -- its entries may not have been announced
      end
    end
    if not paused[queue] then
      open[#open + 1] = queue
      if more > 0 then timed[#timed + 1] = queue end
    end
  end
  return open, timed, inbox
end

-- The skipped tasks that have a job in line, if nothing was leased.
function Leasing.left_to_others(request)
  local tasks = {}
  if request.skip and #Leasing.refs == 0 then
    for task in pairs(Leasing.passed_over) do tasks[#tasks + 1] = task end
  end
  return tasks
end

-- Lease the first jobs in line.
-- ARGV: worker id, seconds of the lease, nonce, limit, solo (1 or 0), isolated tasks and skipped tasks (each a MessagePack
-- array or ''), longest lease in seconds or '', number of queues, queues.
-- Returns: refs; stored jobs; records, false for those that the caller rebuilds; { index, edge values }; { index, attribute
-- values }; the time; whether a suspect waits that this request may not have; seconds until the next scheduled job, if
-- nothing was leased; whether an inbox has entries; skipped tasks with a job in line; { index, when it became due } of jobs
-- that have been moved to the back of the line, false if there are none.
function Leasing.lease()
  local arg = Script.arg
  local request = {
    worker = arg(), ttl = tonumber(arg()), nonce = arg(), limit = tonumber(arg()), solo = arg() == '1', isolated = arg(),
  }
  local skip = arg()
  if skip ~= '' then
    request.skip = {}
    for _, task in ipairs(cmsgpack.unpack(skip)) do request.skip[task] = true end
  end
  request.at_most = tonumber(arg()) or math.huge
  request.ttl = math.min(request.ttl, request.at_most)
  local queues = {}
  for i = 1, tonumber(arg()) do queues[i] = arg() end
  local open, timed, inbox = Leasing.unpaused(queues)
  for _, queue in ipairs(timed) do Leasing.cancel_expired(queue) end
  for _, queue in ipairs(timed) do Leasing.promote(queue) end
  for _, queue in ipairs(timed) do Leasing.set_due(queue) end
  local suspect, suspect_waits = Leasing.suspect(request, timed)
  if suspect and request.limit > 0 then
    Leasing.hand_out(request, suspect, redis.call('HGET', Key.jobs, suspect.ref), true)
  else
    local room = request.limit
    for _, queue in ipairs(open) do
      if request.skip and (room > 0 or request.limit == 0) then
        room = room - Leasing.hand_out_unskipped(request, queue, room)
      elseif room > 0 then
        room = room - Leasing.hand_out_line(request, queue, room)
      end
    end
  end
  return {
    Leasing.refs, Leasing.stored, Leasing.records, Leasing.edges, Leasing.attributes, string.format('%.17g', Script.now),
    suspect_waits or false, #Leasing.refs == 0 and Leasing.due_in(open), inbox, Leasing.left_to_others(request),
    Leasing.moved and Jobs.ready_times(Leasing.moved),
  }
end
