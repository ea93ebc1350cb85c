-- HandOvers jobs out.

local Leasing = {
  BATCH = 1000,  -- jobs of a queue that one call promotes, and cancels for having expired
  SUSPECTS = 100,  -- of a queue, among which one of an isolated task is looked for
  LOOK_AHEAD = 1000,  -- jobs of a line, among which those are looked for that the request does not skip
  passed_over = {},  -- tasks that the request skips and that have a job in line
  has_more = {},  -- whether a queue has more than a line, or something in its inbox
  refs = {}, stored = {}, records = {}, edges = {}, attributes = {},  -- of the jobs that were handed out, in order
}

-- Up to so many jobs from a sorted set of members whose time, which is the score, has come; the first of them first.
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
    -- The end of one may have been the end of the next, which waited for it.
    if job and not Jobs.final(job.state) then Leasing.expire(job) end
  end
end

function Leasing.promote(queue)
  local jobs = Leasing.due_jobs(Key.scheduled .. queue)
  if #jobs == 0 then return end
  local last = Script.draw_seqs(#jobs)
  for i, job in ipairs(jobs) do
    Jobs.remove_from_indexes(job)
    job.run_at, job.seq = nil, Script.seq_of(last + i)
    Jobs.add_to_indexes(job)
  end
end

-- Have the queue looked at when the next of its jobs comes due or expires.
function Leasing.set_due(queue)
  for _, family in ipairs({ Key.scheduled, Key.expiring }) do
    local score = redis.call('ZRANGE', family .. queue, 0, 0, 'WITHSCORES')[2]
    if score then Script.set_due(queue, tonumber(score) / 1000000) end
  end
end

-- Of the attributes of its run give those that the step reads which is the latest to be handed out.
function Leasing.add_attributes(ref, options)
  if not options.reads then return end
  local values = Script.fields_of(Key.attributes .. (options.run or ref), options.reads)
  Leasing.attributes[#Leasing.attributes + 1] = { #Leasing.refs - 1, values }
end

-- Hand one job out, whatever there is about it.
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
  Leasing.add_attributes(job.ref, job.options)
end

-- Hand out jobs whose members were taken out of their line; how many. Those that have never been leased and have nothing else
-- about them go together: their records differ in the seq alone, and the caller knows them without being told.
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
    if not kind then  -- of a job that is gone, or whose coming was refused
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
      if job.state ~= is.waiting or job.run_at then  -- it stands elsewhere: see `Jobs.split_stale`
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

-- Hand out up to so many from the front of a line; how many.
function Leasing.hand_out_line(request, queue, room)
  local leased, looked_at, left = 0, 0, true
  -- Expired ones do not count; of those beyond a step the rest is left for the next call.
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

-- Note that the line of a queue is empty.
function Leasing.mark_empty(queue)
  redis.call('DEL', Key.marker .. queue)
  local more = Leasing.has_more[queue] and redis.call('EXISTS', Key.suspects .. queue, Key.inbox .. queue) > 0
  if not more then redis.call('ZREM', Key.ready, queue) end
end

-- Hand out up to so many from the front of a line, without those of skipped tasks, which stay where they are; how many.
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
    -- Only then: this caller would be the first to be woken for what it has passed over.
    Script.fill_markers(Key.marker .. queue, 1)
    Script.call_listeners(queue, 1)
  end
  return leased
end

-- The first suspect of these queues that the request may have, and whether there is one that it may not have.
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

-- Seconds until the next scheduled job of these queues is due; false if there is none.
function Leasing.due_in(queues)
  local soonest = math.huge
  for _, queue in ipairs(queues) do
    local score = redis.call('ZRANGE', Key.scheduled .. queue, 0, 0, 'WITHSCORES')[2]
    if score then soonest = math.min(soonest, tonumber(score) / 1000000) end
  end
  return soonest < math.huge and string.format('%.17g', math.max(0, soonest - Script.now))
end

-- Of these queues those that are not paused; of them those that have more than a line; whether something lies in an inbox.
function Leasing.unpaused(queues)
  local open, timed, inbox, paused = {}, {}, false, {}
  for _, queue in ipairs(redis.call('SMEMBERS', Key.paused)) do paused[queue] = true end
  for _, queue in ipairs(queues) do
    local more = redis.call('EXISTS', Key.inbox .. queue, Key.expiring .. queue, Key.scheduled .. queue, Key.suspects .. queue)
    if more > 0 then
      Leasing.has_more[queue] = true
      if redis.call('EXISTS', Key.inbox .. queue) == 1 then
        inbox = true
        redis.call('ZADD', Key.ready, 0, queue)  -- whose entries nobody may have announced
      end
    end
    if not paused[queue] then
      open[#open + 1] = queue
      if more > 0 then timed[#timed + 1] = queue end
    end
  end
  return open, timed, inbox
end

-- Of the tasks that the request skips those that have a job in line, if it was leased nothing.
function Leasing.left_to_others(request)
  local tasks = {}
  if request.skip and #Leasing.refs == 0 then
    for task in pairs(Leasing.passed_over) do tasks[#tasks + 1] = task end
  end
  return tasks
end

-- Hand out what is first in line; see the contract. Arguments: worker, seconds, nonce, limit, solo, isolated tasks and skipped ones
-- as MessagePack or nothing, seconds that no lease exceeds or nothing, number of queues, queues.
-- Answers: refs, what is stored of each, records (nothing for those that the caller knows), results of blockers, attributes, the
-- time, whether a suspect waits, when the next job is due, whether something lies in an inbox, tasks that were passed over.
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
  }
end
