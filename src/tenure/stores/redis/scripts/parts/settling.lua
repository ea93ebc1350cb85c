-- Settles attempts: applies the transition of each job under its token.

local Settling = {}

-- Finish the plain successes together, as nearly all are: they change only their record and index. The others are left to
-- `HandOvers` and `Singly`. Plain successes that other jobs wait for are finished here too; their edges are left to
-- `EdgeBatch`.
-- Returns the records as they were; by ref, the index of its first settlement; and by index, true for jobs whose edges are
-- to be closed, nil if there are none.
function Settling.finish_plain(items, verdicts)
  local sub, byte, running, succeeded = string.sub, string.byte, is.running, is.succeeded
  local refs, tokens, transitions, ended = items.refs, items.tokens, items.transitions, cmsgpack.pack(Script.now)
  local records, firsts, changed, n = Script.fields_of(Key.records, refs), {}, {}, 0
  local head, tails, quiet_runs, closing = '\159' .. string.char(succeeded), {}, nil, nil
  local all_details = next(items.details) and items.details
  local awaited = all_details and #refs > 1 and Settlements.awaited(items)
  for _, group in ipairs(items.groups) do
    local members = {}
    for i = group.first, group.last do
      local record, ref, transition = records[i], refs[i], transitions[i]
      local details = all_details and all_details[i]
      if details and details.plain then transition = details.plain end
      local plain, state, flags = false, nil, nil
      if record and byte(transition) == succeeded then
        state, flags = byte(record, 2, 3)
        if flags == flag.step then
          quiet_runs = quiet_runs or HandOvers.quiet_runs(items, records)
          plain = state == running and quiet_runs[i]
        else
          plain = state == running and (flags == 0 or flags == flag.blocks)
        end
      end
      -- A job that waits for this one comes with another settlement of this call, maybe an earlier one.
      if awaited and (awaited[ref] or plain and flags == flag.step and awaited[quiet_runs[i]]) then plain = false end
      if firsts[ref] then plain = false else firsts[ref] = i end
      if plain and sub(record, 4, 25) == tokens[i] then
        if flags == flag.blocks then
          closing = closing or {}
          closing[i] = true
        elseif flags == flag.step and details and details.writes then
          Script.call_in_chunks('HSET', Key.attributes .. quiet_runs[i], details.writes.attributes)
        end
        if not tails[transition] then tails[transition] = ended .. sub(transition, 2) .. '\192\207\0\0' end
        local seq = sub(record, -6)
        members[#members + 1] = seq .. ref
        verdicts[i] = Code.OK
        -- Replaces the state and the last fields before the seq: end, result and error, all nil until now.
        changed[n + 1], changed[n + 2] = ref, head .. sub(record, 3, -13) .. tails[transition] .. seq
        n = n + 2
      end
    end
    Settlements.move_to_ended(group, succeeded, members, Key.ended)
  end
  Script.call_in_chunks('HSET', Key.records, changed)
  return records, firsts, closing
end

-- Settles jobs one by one.
local Singly = lazy(function(Singly)

function Singly.requeue(job, transition)
  local _, delay, run_at, counts, front, missed, error, brief = cmsgpack.unpack_limit(transition, 7, 1)
  if counts then
    History.add(job, 'retried', brief or error)
    Totals.count('processed', job.queue, job.worker)
    Totals.count('retried', job.queue, job.worker)
  end
  Jobs.remove_from_indexes(job)
  job.state, job.result = is.waiting, nil
  job.error = error or job.error
  if not counts then job.attempt = job.attempt - 1 end
  if missed then job.misses = job.misses + 1 elseif not front then job.misses = 0 end
  Jobs.add_to_indexes(job)
  if front then Script.add_new_work(job.queue) else Jobs.enter_line(job, run_at or Script.now + delay) end
end

function Singly.park(job, transition)
  local _, timeout, on_timeout = cmsgpack.unpack_limit(transition, 2, 1)
  Jobs.remove_from_indexes(job)
  job.state, job.result = is.blocked, nil
  job.parked = timeout and Script.now + timeout or math.huge
  if on_timeout then job.parked = { job.parked, on_timeout } end
  job.attempt, job.misses = job.attempt - 1, 0
  Jobs.set(job, flag.unexpiring, true)
  Jobs.add_to_indexes(job)
end

-- The final state, the result and the error of a finish.
function Singly.parse_finish(transition)
  local kind = string.byte(transition)
  if kind == Settlements.FINISH then return select(2, cmsgpack.unpack_limit(transition, 3, 1)) end
  if kind == Settlements.HAND_OVER then return is.succeeded, select(2, cmsgpack.unpack_limit(transition, 1, 1)) end
  return kind, cmsgpack.unpack(string.sub(transition, 2))
end

-- What the history keeps of the attempt, if it is not the job's error.
function Singly.parse_left(transition, details)
  if string.byte(transition) == Settlements.HAND_OVER then return details.left end
  return string.byte(transition) == Settlements.FINISH and select(6, cmsgpack.unpack_limit(transition, 5, 1)) or nil
end

-- The jobs that end together with this one, by ref: their unique keys become free.
function Singly.jobs_ending_with(job, state, successor)
  job.successor = successor and successor.ref
  local found = Ending.ending_with(job, state)
  job.successor = nil
  return found
end

-- End a job and add the new jobs that come with it. `outside` is true if an operator completes it, not its holder.
function Singly.finish(job, transition, details, outside)
  local state, result, error = Singly.parse_finish(transition)
  local successor = details and job.options.flow and details.successor
  local planned, refusal = {}, nil
  if details then planned, refusal = Enqueueing.plan(details.jobs, Singly.jobs_ending_with(job, state, successor)) end
  if not planned then return { Code.REFUSED, unpack(refusal) } end
  if not outside then
    local left = Singly.parse_left(transition, details)
    if state ~= is.succeeded or left then History.add(job, name_of[state], left or error) end
    Settlements.count_processed(state, job.queue, job.worker)
  else
    if job.state == is.running then History.add(job, 'completed') end
    Ending.revoke(job, 'completed')
  end
  if details and details.writes and job.options.flow then Runs.write(job, details.writes) end
  if successor then job.successor, successor.before = successor.ref, job.queue end
  Ending.finish(job, state, result, error, not outside and job.worker or nil, not outside)
  local ended = Ending.propagate(job, name_of[state])
  ended[#ended + 1] = job
  -- After the end and before the removal: a child may take the unique key that has just become free, or wait for its
  -- parent.
  for _, child in ipairs(Enqueueing.add_all(planned)) do ended[#ended + 1] = child end
  Ending.remove_unkept(ended)
  return Code.OK
end

function Singly.settle(ref, token, transition, details)
  local job = Jobs.load(ref)
  if not job then return Code.NOT_FOUND end
  if '\206' .. struct.pack('>I4', job.fence) .. '\176' .. job.nonce ~= token then return Code.LEASE_LOST end
  if job.state ~= is.running then return Code.OK end  -- this token has settled the job before, and the reply was lost
  local kind = string.byte(transition)
  if kind == Settlements.REQUEUE then
    Singly.requeue(job, transition)
  elseif kind == Settlements.PARK then
    Singly.park(job, transition)
  else
    return Singly.finish(job, transition, details)
  end
  return Code.OK
end

end)

-- Settle everything in the arguments, in order. Returns one verdict each.
function Settling.settle()
  local items, verdicts = Settlements.read(), {}
  local function settle_singly(i)
    verdicts[i] = Singly.settle(items.refs[i], items.tokens[i], items.transitions[i], items.details[i])
  end
  local records, firsts, to_close = Settling.finish_plain(items, verdicts)
  local hand_overs = next(items.details) and HandOvers.begin(items, records, firsts)
  local closing = to_close and EdgeBatch.begin()
  local function finish_together()
    if closing then EdgeBatch.flush(closing) end
    if hand_overs then HandOvers.flush(hand_overs, settle_singly) end
  end
  for _, group in ipairs(items.groups) do
    for i = group.first, group.last do
      if verdicts[i] then
        if closing and to_close[i] then
          -- Earlier hand-overs go in line ahead of this job's dependents.
          if hand_overs and #hand_overs.batch > 0 then finish_together() end
          EdgeBatch.close(closing, items.refs[i], select(2, Singly.parse_finish(items.transitions[i])))
        end
      elseif hand_overs and HandOvers.accepts(hand_overs, i) then
        HandOvers.add(hand_overs, group, i)
        verdicts[i] = Code.OK
      else
        finish_together()
        settle_singly(i)
      end
    end
  end
  finish_together()
  return verdicts
end
