-- Makes jobs final, with the consequences: unique keys, edges, waiters, records.
-- Errors that are written here are words of `RecordedError`, which `records.py` turns into sentences.

local AWAITED_FOR = 60  -- seconds that a final job is kept at least if a client waits for its end

local Ending = lazy(function(Ending)

-- Announce an event of a job to the clients that wait for it, as the event's word and the ref.
function Ending.announce_to_waiters(job, event)
  local channels = redis.call('HGET', Key.waiters, job.ref)
  if not channels then return end
  for channel in string.gmatch(channels, '%S+') do
    redis.call('PUBLISH', Key.signals .. channel, event .. ' ' .. job.ref)
  end
  redis.call('HDEL', Key.waiters, job.ref)
end

-- End the token of a job. If a worker holds the job, announce the event to it.
function Ending.revoke(job, event)
  if job.state == is.running then
    local channel = redis.call('HGET', Key.worker .. job.worker, 'channel')
    if channel then redis.call('PUBLISH', Key.signals .. channel, event .. ' ' .. job.ref) end
  end
  job.nonce = no_nonce
  job.changed = true
end

-- The job id of a ref.
function Ending.id_of(ref)
  if string.byte(ref) == 255 then return string.sub(ref, 2) end
  local hex = string.gsub(ref, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
  return string.gsub(hex, '^(%x%x%x%x%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x%x%x%x)', '%1-%2-%3-%4-') .. ''
end

-- End one job without its dependents: record, indexes, token, unique key, totals and waiters. `by` is the worker whose
-- total counts it. The token stays in the record if its holder `settled` the job, so that a repeated settle is recognised.
-- A step that hands over has its `successor` set already.
function Ending.finish(job, state, result, error, by, settled)
  Jobs.remove_from_indexes(job)
  job.state, job.ended = state, Script.now
  job.run_at, job.parked = nil, nil
  job.result = result
  if state == is.succeeded then job.error = nil else job.error = error or job.error end
  if not settled then job.nonce = no_nonce end
  Jobs.add_to_indexes(job)
  Totals.count(name_of[state], job.queue, by)
  for _, each in ipairs(Runs.ended_with(job)) do
    if each.options.unique and (state == is.cancelled or not each.options.window) then Unique.release(each) end
    if Jobs.has(each, flag.awaited) then Ending.announce_to_waiters(each, 'done') end
  end
end

-- Apply the end of a blocker to one edge of a dependent. Returns true if that made the dependent fail. `ref` is what the
-- dependent waits for: the blocker, or the run that ended with it.
function Ending.resolve_edge(blocker, ended, dependent, position, ref)
  local policy = dependent.options.if_blocker_fails
  if ended == 'succeeded' then
    Edges.close(ref, dependent, position, blocker.result and 'R' .. blocker.result or 'N')
  elseif policy == 'proceed' then
    Edges.close(ref, dependent, position, 'F' .. cmsgpack.pack({ Ending.id_of(ref), ended, blocker.error }))
  elseif dependent.state == is.blocked and (policy ~= 'wait' or ended == 'deleted') then
    Ending.finish(dependent, is.failed, nil, RecordedError.BLOCKER_FAILED .. ' ' .. ended .. ' ' .. Ending.id_of(ref))
    Script.add_consequence('failed', dependent)
    return true
  end
end

-- Propagate the end of a job to its dependents, breadth first. Returns the dependents that failed because of it.
function Ending.propagate(first, how)
  local failed, following = {}, { { first, how } }
  for next = 1, math.huge do
    if not following[next] then return failed end
    local blocker, ended = unpack(following[next])
    for _, edge in ipairs(Edges.open_to_any(ended == 'deleted' and { blocker } or Runs.ended_with(blocker))) do
      local dependent = Jobs.load(edge[1])
      if Ending.resolve_edge(blocker, ended, dependent, edge[2], edge[3]) then
        failed[#failed + 1] = dependent
        following[#following + 1] = { dependent, 'failed' }
      end
    end
  end
end

-- The jobs that would end if this job ended in this state: itself, and the dependents that `propagate` would fail. By ref.
-- Changes nothing.
function Ending.ending_with(first, state)
  local found, doomed, following = {}, { [first.ref] = true }, { first }
  for next = 1, math.huge do
    local job = following[next]
    if not job then return found end
    local over = Runs.ended_with(job)
    for _, each in ipairs(over) do found[each.ref] = each end
    for _, edge in ipairs(state ~= is.succeeded and Edges.open_to_any(over) or {}) do
      local dependent = Jobs.load(edge[1])
      local policy = dependent.options.if_blocker_fails
      if not doomed[dependent.ref] and dependent.state == is.blocked and policy ~= 'proceed' and policy ~= 'wait' then
        doomed[dependent.ref] = true
        following[#following + 1] = dependent
      end
    end
  end
end

-- The jobs that are blocked by a job. Final jobs may have open edges too, and are left out.
function Ending.blocked_dependents(job)
  local found = {}
  for _, edge in ipairs(Edges.open_to(job)) do
    local dependent = Jobs.load(edge[1])
    -- A job that waits twice for the same blocker has two adjacent edges.
    if dependent.state == is.blocked and found[#found] ~= dependent then found[#found + 1] = dependent end
  end
  return found
end

-- Whether a final job may be removed: no client waits for it, it owns no unique key and no job is blocked by it. For a
-- step, this must hold for all steps of the run. Returns the jobs that go, or false.
function Ending.removable(job)
  if job.successor then return false end
  local whole = Runs.all_steps(job)
  for _, each in ipairs(whole) do
    if Jobs.has(each, flag.awaited) and job.ended + AWAITED_FOR > Script.now then return false end
    if each.options.unique and Unique.owner_of(each.task, each.options.unique) == each.ref then return false end
    if #Ending.blocked_dependents(each) > 0 then return false end
  end
  return whole
end

function Ending.remove_all(jobs)
  for _, job in ipairs(jobs) do Ending.remove(job) end
end

-- Remove a job from every key. Edges of other jobs to it stay open, because there is no outcome to close them with.
function Ending.remove(job)
  Jobs.remove_from_indexes(job)
  redis.call('HDEL', Key.jobs, job.ref)
  redis.call('HDEL', Key.records, job.ref)
  redis.call('HDEL', Key.history, job.ref)
  if Jobs.has_moved(job) then redis.call('HDEL', Key.ready_at, job.ref) end
  redis.call('ZREM', Key.order, job.ref)
  Script.to_sweep = Script.to_sweep + 2
  Script.loaded[job.ref] = false
  Unique.release(job)
  for position, edge in ipairs(Edges.values_of(job)) do
    local blocker = Edges.blocker_of(edge)
    if blocker then redis.call('ZREM', Key.dependents, Edges.name(blocker, job, position)) end
    redis.call('HDEL', Key.edges, Edges.field(job.ref, position), Edges.open_field(job.ref), Edges.blockers_field(job.ref))
  end
  if Jobs.has(job, flag.awaited) then Ending.announce_to_waiters(job, 'deleted') end
  if Runs.begins(job) then Flows.remove_all({ { ref = job.ref, flow = job.options.flow, number = job.number } }) end
end

-- Remove the final ones of these jobs whose `keep` is 0.
function Ending.remove_unkept(jobs)
  for _, job in ipairs(jobs) do
    local unkept = job.options.keep == 0 and Script.loaded[job.ref] and Jobs.final(job.state)
    local to_remove = unkept and Ending.removable(job)
    if to_remove then Ending.remove_all(to_remove) end
  end
end

-- Make a job final and propagate that. `by` is the worker whose total counts it.
function Ending.finish_and_propagate(job, state, result, error, by)
  Ending.finish(job, state, result, error, by)
  local ended = Ending.propagate(job, name_of[state])
  ended[#ended + 1] = job
  Ending.remove_unkept(ended)
end

-- Remove jobs whatever their state. Propagates only after all are gone, in the order in which the jobs were enqueued.
function Ending.delete_all(jobs)
  for _, job in ipairs(jobs) do
    Ending.revoke(job, 'deleted')
    Ending.remove(job)
  end
  table.sort(jobs, function(one, other)
    return struct.unpack('>I6', one.number) < struct.unpack('>I6', other.number)
  end)
  for _, job in ipairs(jobs) do Ending.remove_unkept(Ending.propagate(job, 'deleted')) end
end

end)
