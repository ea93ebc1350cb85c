-- A stored job, and the sorted sets that index it. `records.py` describes the stored formats.

local is = { blocked = 0, waiting = 1, running = 2, succeeded = 3, failed = 4, cancelled = 5, broken = 6 }
local name_of = { [0] = 'blocked', 'waiting', 'running', 'succeeded', 'failed', 'cancelled', 'broken' }

-- Flags of a record.
local flag = {
  special = 1,  -- has options that matter beyond waiting, running and ending
  blocks = 2,  -- some job has, or had, an edge to it
  awaited = 4,  -- a client waits for its end
  solo = 8,  -- its lease was given alone
  unexpiring = 16,  -- it no longer expires
  detailed = 32,  -- it has an error or progress
  step = 64,  -- it is a step of a run
}

local no_nonce = '----------------'  -- the token is dead: no caller has such a nonce

local Jobs = lazy(function(Jobs)

function Jobs.final(state)
  return state > is.running
end

function Jobs.has(job, which)
  return bit.band(job.flags, which) ~= 0
end

function Jobs.set(job, which, on)
  job.flags = on and bit.bor(job.flags, which) or bit.band(job.flags, bit.bnot(which))
end

function Jobs.parse(ref, stored, record)
  local _, kind, task, queue, priority, options = cmsgpack.unpack_limit(stored, 5, 10)
  local job = {
    ref = ref,
    number = string.sub(stored, -6),
    created = struct.unpack('>d', stored, 3),
    task = task,
    queue = queue,
    priority = priority,
    options = options,
  }
  if record then
    local _
    job.seq = string.sub(record, -6)
    _, job.state, job.flags, job.fence, job.nonce, job.attempt, job.losses, job.misses, job.worker, job.started,
      job.run_at, job.parked, job.ended, job.result, job.error = cmsgpack.unpack_limit(record, 14, 1)
    if job.state > is.running then job.successor, job.parked = job.parked, nil end
  else
    job.seq = job.number
    job.state, job.flags, job.fence, job.nonce = is.waiting, bit.band(kind, flag.special + flag.blocks + flag.step), 0, no_nonce
    job.attempt, job.losses, job.misses = 0, 0, 0
    -- The record of a new blocked job was refused: see `Jobs.indexed_at`.
    if options.edges then job.state, job.lacks_record = is.blocked, true end
  end
  Script.loaded[ref] = job
  return job
end

-- Set a flag, to be saved at the end of the script.
function Jobs.mark(job, which)
  Jobs.set(job, which, true)
  job.changed = true
end

-- Load the jobs of these refs into `Script.loaded`, false for those that do not exist. Changed ones are saved by `finish`.
function Jobs.load_all(refs)
  local unknown = {}
  for i = 1, #refs do
    if Script.loaded[refs[i]] == nil then unknown[#unknown + 1] = refs[i] end
  end
  local stored, records = Script.fields_of(Key.jobs, unknown), Script.fields_of(Key.records, unknown)
  for i = 1, #unknown do
    if stored[i] then Jobs.parse(unknown[i], stored[i], records[i]) else Script.loaded[unknown[i]] = false end
  end
end

function Jobs.load(ref)
  if Script.loaded[ref] == nil then Jobs.load_all({ ref }) end
  return Script.loaded[ref]
end

function Jobs.pack(job)
  Jobs.set(job, flag.detailed, job.error or (job.state == is.running and job.result))
  return '\159' .. string.char(job.state, job.flags) .. '\206' .. struct.pack('>I4', job.fence) .. '\176' .. job.nonce
    .. cmsgpack.pack(job.attempt, job.losses, job.misses, job.worker, job.started, job.run_at,
      job.successor or job.parked, job.ended, job.result, job.error) .. '\207\0\0' .. job.seq
end

-- Save the records that changed, and when jobs became due.
function Jobs.save_all()
  local changed, ready = {}, {}
  for ref, job in pairs(Script.loaded) do
    if job and job.changed then
      changed[#changed + 1] = ref
      changed[#changed + 1] = Jobs.pack(job)
      job.changed = false
      if job.ready_at then
        ready[#ready + 1] = ref
        ready[#ready + 1] = struct.pack('>d', job.ready_at)
      end
    end
  end
  Script.call_in_chunks('HSET', Key.ready_at, ready)
  Script.call_in_chunks('HSET', Key.records, changed)
end

-- Put a job behind all others, with this seq: it became due at this time.
function Jobs.move_to_back(job, seq, ready_at)
  job.seq, job.ready_at = seq, ready_at
end

-- Whether a job has been moved to the back of the line since its enqueue. Only then `ready_at` may have an entry for it.
function Jobs.has_moved(job)
  return job.seq ~= job.number
end

-- When jobs that have moved became due: { index, time as in `ready_at` or false } for each { index, job }.
function Jobs.ready_times(moved)
  local refs, found = {}, {}
  for i, each in ipairs(moved) do refs[i] = each[2].ref end
  for i, time in ipairs(Script.fields_of(Key.ready_at, refs)) do
    local index, job = unpack(moved[i])
    found[i] = { index, job.ready_at and struct.pack('>d', job.ready_at) or time }
  end
  return found
end

function Jobs.ended_key(job)
  return ((job.options.keep or job.successor) and Key.apart or Key.ended) .. name_of[job.state] .. ':' .. job.queue
end

function Jobs.expires_at(job)
  local after = job.options.expires
  if after and not Jobs.has(job, flag.unexpiring) then return job.created + after end
end

-- Call `act` with key, score and member of each sorted set that the job belongs in now. This is the only place that decides
-- it.
function Jobs.each_index(job, act)
  local queue, member = job.queue, job.seq .. job.ref
  if job.state == is.waiting then
    if job.run_at then
      act(Key.scheduled .. queue, Script.score_of(job.run_at), member)
    else
      act((job.losses >= 2 and Key.suspects or Key.line) .. queue, job.priority, member)
    end
  elseif job.state == is.blocked then
    act(Key.blocked .. queue, job.priority, member)
    local ends = type(job.parked) == 'table' and job.parked[1] or job.parked
    if ends then act(Key.parked .. queue, Script.score_of(ends), member) end
  elseif job.state == is.running then
    act(Key.held .. queue, Script.score_of(job.held_until or 0), member)
  else
    act(Jobs.ended_key(job), Script.score_of(job.ended), member)
    if job.state == is.failed then act(Key.failures .. job.task, Script.score_of(job.ended), member) end
    if job.options.keep and not job.successor then act(Key.kept, Script.score_of(job.ended + job.options.keep), job.ref) end
  end
  if job.attempt == 0 and not Jobs.final(job.state) then
    local expiry = Jobs.expires_at(job)
    if expiry then act(Key.expiring .. queue, Script.score_of(expiry), member) end
  end
end

-- A script that is refused a command midway stays half done. Records are the truth: an index entry counts only if the
-- record agrees. Returns the jobs of these members of a sorted set that belong there, and the stale members.
function Jobs.split_stale(key, members)
  local refs, jobs, stale = {}, {}, {}
  for i, member in ipairs(members) do refs[i] = string.sub(member, 7) end
  Jobs.load_all(refs)
  for i, member in ipairs(members) do
    local job, found = Script.loaded[refs[i]], false
    if job then Jobs.each_index(job, function(index, _, own_member) found = found or index == key and own_member == member end) end
    if found then jobs[#jobs + 1] = job else stale[#stale + 1] = member end
  end
  return jobs, stale
end

-- The jobs of these members that belong in the sorted set. Stale members are removed, and their jobs indexed where they
-- belong.
function Jobs.indexed_at(key, members)
  local jobs, stale = Jobs.split_stale(key, members)
  Script.call_in_chunks('ZREM', key, stale)
  for _, member in ipairs(stale) do
    local job = Script.loaded[string.sub(member, 7)]
    if job then Jobs.reindex(job) end
  end
  return jobs
end

-- Add a job to the indexes that its record calls for, if it is missing there. A running job gets the longest lease of its
-- queue, so that its holder can still renew or settle it.
function Jobs.reindex(job)
  if job.state == is.running then job.held_until = Script.now + (job.options.lease or Totals.longest_lease(job.queue)) end
  Jobs.each_index(job, function(key, score, member)
    if redis.call('ZADD', key, 'NX', score, member) == 1 and job.state == is.waiting then Script.add_new_work(job.queue) end
  end)
end

-- Remove a job from its indexes. Call this before changing the job, and `add_to_indexes` afterwards.
function Jobs.remove_from_indexes(job)
  Jobs.each_index(job, function(key, _, member) redis.call('ZREM', key, member) end)
  if job.state == is.running then Totals.add_held(job.worker, -1) end
end

function Jobs.add_to_indexes(job)
  Jobs.each_index(job, function(key, score, member) redis.call('ZADD', key, score, member) end)
  if job.state == is.running then Totals.add_held(job.worker, 1) end
  Jobs.set_due(job)
  job.changed = true
end

-- Have the queue checked when the job becomes due or expires, or when its lease or parking ends.
function Jobs.set_due(job)
  if Jobs.final(job.state) then return end
  local ends = type(job.parked) == 'table' and job.parked[1] or job.parked
  local at = job.state == is.running and (job.held_until or 0) or job.state == is.blocked and ends or job.run_at
  if at then Script.set_due(job.queue, at) end
  if job.attempt == 0 and job.options.expires then
    local expiry = Jobs.expires_at(job)
    if expiry then Script.set_due(job.queue, expiry) end
  end
end

-- Put a job at the back of the line, or schedule it, keeping its seq, if `run_at` lies ahead. A job that
-- `is_new` in this script already has a seq at the back, ahead of the jobs that come after it.
function Jobs.enter_line(job, run_at)
  Jobs.remove_from_indexes(job)
  job.state = is.waiting
  job.run_at = run_at and run_at > Script.now and run_at or nil
  if not job.run_at and not job.is_new then Jobs.move_to_back(job, Script.seq_of(Script.draw_seqs(1) + 1), Script.now) end
  Jobs.add_to_indexes(job)
  Script.add_new_work(job.queue)
end

end)
