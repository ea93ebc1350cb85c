-- Handing jobs out.

local Leasing = {
  STEP = 1000,  -- jobs of a queue that one call promotes, and cancels for having expired
  SUSPECTS = 100,  -- of a queue, among which one of an isolated task is looked for
  refs = {}, stored = {}, records = {}, edges = {}, attributes = {},  -- of the jobs that were handed out, in order
}

-- Up to so many refs from a sorted set of places whose time, which is the score, has come; the first of them first.
function Leasing.over(key)
  local refs = redis.call('ZRANGEBYSCORE', key, '-inf', Step.score_of(Step.now), 'LIMIT', 0, Leasing.STEP)
  for i = 1, #refs do refs[i] = string.sub(refs[i], 7) end
  Jobs.load_all(refs)
  return refs
end

function Leasing.expire(job)
  Step.tell('expired', job)
  Ending.finish_whole(job, is.cancelled, nil, 'expired')
end

function Leasing.cancel_expired(queue)
  for _, ref in ipairs(Leasing.over(Key.expiring .. queue)) do
    local job = Jobs.load(ref)
    -- The end of one may have been the end of the next, which waited for it.
    if job and not Jobs.final(job.state) then Leasing.expire(job) end
  end
end

function Leasing.promote(queue)
  local refs = Leasing.over(Key.scheduled .. queue)
  if #refs == 0 then return end
  local last = Step.draw(#refs)
  for i, ref in ipairs(refs) do
    local job = Jobs.load(ref)
    Jobs.take(job)
    job.run_at, job.seq = nil, Step.seq_of(last + i)
    Jobs.put(job)
  end
end

-- Of the attributes of its run give those that the step reads which is the latest to be handed out.
function Leasing.give(ref, options)
  if not options.reads then return end
  local values = Step.fields_of(Key.attributes .. (options.run or ref), options.reads)
  Leasing.attributes[#Leasing.attributes + 1] = { #Leasing.refs - 1, values }
end

-- Hand one job out, whatever there is about it.
function Leasing.hand_out(request, job, stored, alone)
  Jobs.take(job)
  job.state = is.running
  job.attempt, job.fence = job.attempt + 1, job.fence + 1
  job.nonce, job.worker, job.started, job.result = request.nonce, request.worker, Step.now, nil
  Jobs.set(job, flag.solo, alone)
  job.held_until = Step.now + (job.options.lease or request.ttl)
  Jobs.put(job)
  local n = #Leasing.refs + 1
  Leasing.refs[n], Leasing.stored[n], Leasing.records[n] = job.ref, stored, Jobs.pack(job)
  if job.options.edges then Leasing.edges[#Leasing.edges + 1] = { n - 1, Edges.of(job) } end
  Leasing.give(job.ref, job.options)
end

-- Hand out jobs whose places were taken out of their line; how many. Those that have never been leased and have nothing else
-- about them go together: their records differ in the seq alone, and the caller knows them without being told.
function Leasing.hand_out_all(request, queue, popped)
  local sub, byte, out, loaded = string.sub, string.byte, Leasing, Step.loaded
  local refs, before = {}, #out.refs
  for i = 1, #popped, 2 do refs[#refs + 1] = sub(popped[i], 7) end
  local stored, known = Step.fields_of(Key.jobs, refs), Step.fields_of(Key.records, refs)
  local head = '\206\0\0\0\1\176' .. request.nonce
    .. cmsgpack.pack(1, 0, 0, request.worker, Step.now, nil, nil, nil, nil, nil) .. '\207\0\0'
  local fresh = { [0] = '\159' .. string.char(is.running, 0) .. head }
  local held_until = Step.score_of(Step.now + request.ttl)
  local held, records, n = {}, {}, 0
  for i = 1, #refs do
    local ref, kind = refs[i], byte(stored[i], 11)
    if not fresh[kind] and kind % 2 == 0 then
      fresh[kind] = '\159' .. string.char(is.running, bit.band(kind, flag.blocks + flag.step)) .. head
    end
    if not known[i] and not loaded[ref] and fresh[kind] then
      local place, next = popped[2 * i - 1], #out.refs + 1
      held[n + 1], held[n + 2] = held_until, place
      records[n + 1], records[n + 2] = ref, fresh[kind] .. sub(place, 1, 6)
      n = n + 2
      out.refs[next], out.stored[next], out.records[next] = ref, stored[i], false
      if kind > flag.step then out.give(ref, (select(6, cmsgpack.unpack_limit(stored[i], 5, 10)))) end
    else
      local job = loaded[ref] or Jobs.parse(ref, stored[i], known[i])
      local expiry = job.attempt == 0 and Jobs.expires_at(job)
      if expiry and expiry <= Step.now then
        Leasing.expire(job)
      else
        Leasing.hand_out(request, job, stored[i])
      end
    end
  end
  if n > 0 then
    Step.each_chunk('ZADD', Key.held .. queue, held)
    Step.each_chunk('HSET', Key.records, records)
    Totals.hold(request.worker, n / 2)
  end
  return #out.refs - before
end

-- Hand out up to so many from the front of a line; how many.
function Leasing.hand_out_line(request, queue, room)
  local given, looked_at, left = 0, 0, true
  -- Expired ones do not count; of those beyond a step the rest is left for the next call.
  while left and given < room and looked_at < room + Leasing.STEP do
    local wanted = math.min(room - given, Step.CHUNK)
    local popped = redis.call('ZPOPMIN', Key.line .. queue, wanted)
    given = given + Leasing.hand_out_all(request, queue, popped)
    looked_at = looked_at + #popped / 2
    left = #popped == 2 * wanted
  end
  if left and redis.call('EXISTS', Key.line .. queue) == 1 then
    Step.fill(Key.marker .. queue, 1)
  else
    redis.call('DEL', Key.marker .. queue)
  end
  return given
end

-- The first suspect of these queues that the request may have, and whether there is one that it may not have.
function Leasing.suspect(request, queues)
  local first, others, isolated
  local last = (request.solo or request.isolated == '') and 0 or Leasing.SUSPECTS - 1
  for _, queue in ipairs(queues) do
    for _, place in ipairs(redis.call('ZRANGE', Key.suspects .. queue, 0, last)) do
      if first and (others or request.solo) then return first, others end
      if last > 0 and not isolated then
        isolated = {}
        for _, task in ipairs(cmsgpack.unpack(request.isolated)) do isolated[task] = true end
      end
      local job = Jobs.load(string.sub(place, 7))
      if request.solo or isolated and isolated[job.task] then first = first or job else others = true end
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
  return soonest < math.huge and string.format('%.17g', math.max(0, soonest - Step.now))
end

-- Of these queues those that are not paused; of them those that have more than a line; whether something lies in an inbox.
function Leasing.open_queues(queues)
  local open, timed, inbox, paused = {}, {}, false, {}
  for _, queue in ipairs(redis.call('SMEMBERS', Key.paused)) do paused[queue] = true end
  for _, queue in ipairs(queues) do
    inbox = inbox or redis.call('EXISTS', Key.inbox .. queue) == 1
    if not paused[queue] then
      open[#open + 1] = queue
      local more = redis.call('EXISTS', Key.expiring .. queue, Key.scheduled .. queue, Key.suspects .. queue)
      if more > 0 then timed[#timed + 1] = queue end
    end
  end
  return open, timed, inbox
end

-- Hand out what is first in line; see the contract. Arguments: worker, seconds, nonce, limit, solo, isolated tasks as MessagePack
-- or nothing, number of queues, queues.
-- Answers: refs, what is stored of each, records (nothing for those that the caller knows), results of blockers, attributes, the
-- time, whether a suspect waits, when the next job is due, whether something lies in an inbox.
function Leasing.lease()
  local arg = Step.arg
  local request = {
    worker = arg(), ttl = tonumber(arg()), nonce = arg(), limit = tonumber(arg()), solo = arg() == '1', isolated = arg(),
  }
  local queues = {}
  for i = 1, tonumber(arg()) do queues[i] = arg() end
  local open, timed, inbox = Leasing.open_queues(queues)
  for _, queue in ipairs(timed) do Leasing.cancel_expired(queue) end
  for _, queue in ipairs(timed) do Leasing.promote(queue) end
  local suspect, suspect_waits = Leasing.suspect(request, timed)
  if suspect and request.limit > 0 then
    Leasing.hand_out(request, suspect, redis.call('HGET', Key.jobs, suspect.ref), true)
  else
    local room = request.limit
    for _, queue in ipairs(open) do
      if room > 0 then room = room - Leasing.hand_out_line(request, queue, room) end
    end
  end
  return {
    Leasing.refs, Leasing.stored, Leasing.records, Leasing.edges, Leasing.attributes, string.format('%.17g', Step.now),
    suspect_waits or false, #Leasing.refs == 0 and Leasing.due_in(open), inbox,
  }
end
