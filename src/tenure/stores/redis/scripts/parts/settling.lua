-- Attempts coming to their end.

local Settling = {}

-- Nearly every job simply succeeds: those that have nothing else about them go together, and change no more than their
-- record and where they stand. The others are left for `Handing` and `Singly`. So do successes that others wait for; their edges
-- are left for `Closing`. Gives the records as they were, by ref the index of the first settlement of each, and by index whose
-- edges are to be closed, nil if there are none.
function Settling.finish_plainly(items, verdicts)
  local sub, byte, running, succeeded = string.sub, string.byte, is.running, is.succeeded
  local refs, tokens, steps, ended = items.refs, items.tokens, items.steps, cmsgpack.pack(Step.now)
  local records, firsts, changed, n = Step.fields_of(Key.records, refs), {}, {}, 0
  local head, tails, unnoticed, closing = '\159' .. string.char(succeeded), {}, nil, nil
  local coming = next(items.coming) and items.coming
  local awaited = coming and #refs > 1 and Settlements.awaited(items)
  for _, group in ipairs(items.groups) do
    local places = {}
    for i = group.first, group.last do
      local record, ref, step = records[i], refs[i], steps[i]
      local with = coming and coming[i]
      if with and with.plain then step = with.plain end
      local plain, state, flags = false, nil, nil
      if record and byte(step) == succeeded then
        state, flags = byte(record, 2, 3)
        if flags == flag.step then
          unnoticed = unnoticed or Handing.unnoticed(items, records)
          plain = state == running and unnoticed[i]
        else
          plain = state == running and (flags == 0 or flags == flag.blocks)
        end
      end
      -- Who waits for it comes with another of these, maybe before it.
      if awaited and (awaited[ref] or plain and flags == flag.step and awaited[unnoticed[i]]) then plain = false end
      if firsts[ref] then plain = false else firsts[ref] = i end
      if plain and sub(record, 4, 25) == tokens[i] then
        if flags == flag.blocks then
          closing = closing or {}
          closing[i] = true
        elseif flags == flag.step and with and with.writes then
          Step.each_chunk('HSET', Key.attributes .. unnoticed[i], with.writes.attributes)
        end
        if not tails[step] then tails[step] = ended .. sub(step, 2) .. '\192\207\0\0' end
        local seq = sub(record, -6)
        places[#places + 1] = seq .. ref
        verdicts[i] = Settlements.OK
        -- Replaced are the state, and the last fields before the seq: end, result and error, all nil so far.
        changed[n + 1], changed[n + 2] = ref, head .. sub(record, 3, -13) .. tails[step] .. seq
        n = n + 2
      end
    end
    Settlements.move(group, succeeded, places, Key.ended)
  end
  Step.each_chunk('HSET', Key.records, changed)
  return records, firsts, closing
end

-- The others, one by one.
local Singly = later(function(Singly)

function Singly.requeue(job, step)
  local _, delay, run_at, counts, front, missed, error, brief = cmsgpack.unpack_limit(step, 7, 1)
  if counts then
    History.enter(job, 'retried', brief or error)
    Totals.count('processed', job.queue, job.worker)
    Totals.count('retried', job.queue, job.worker)
  end
  Jobs.take(job)
  job.state, job.result = is.waiting, nil
  job.error = error or job.error
  if not counts then job.attempt = job.attempt - 1 end
  if missed then job.misses = job.misses + 1 elseif not front then job.misses = 0 end
  Jobs.put(job)
  if front then Step.wake(job.queue) else Jobs.join(job, run_at or Step.now + delay) end
end

function Singly.park(job, step)
  local _, timeout, on_timeout = cmsgpack.unpack_limit(step, 2, 1)
  Jobs.take(job)
  job.state, job.result = is.blocked, nil
  job.parked = timeout and Step.now + timeout or math.huge
  if on_timeout then job.parked = { job.parked, on_timeout } end
  job.attempt, job.misses = job.attempt - 1, 0
  Jobs.set(job, flag.unexpiring, true)
  Jobs.put(job)
end

-- The state that a finish leads to, the result and the error.
function Singly.end_of(step)
  local kind = string.byte(step)
  if kind == Settlements.FINISH then return select(2, cmsgpack.unpack_limit(step, 3, 1)) end
  if kind == Settlements.HAND_OVER then return is.succeeded, select(2, cmsgpack.unpack_limit(step, 1, 1)) end
  return kind, cmsgpack.unpack(string.sub(step, 2))
end

-- What is remembered with the attempt, if that is another than its error.
function Singly.left_by(step, with)
  if string.byte(step) == Settlements.HAND_OVER then return with.left end
  return string.byte(step) == Settlements.FINISH and select(6, cmsgpack.unpack_limit(step, 5, 1)) or nil
end

-- Whose keys are free to take once the job has ended, by ref.
function Singly.ending(job, state, successor)
  job.successor = successor and successor.ref
  local found = Ending.with_doomed(job, state)
  job.successor = nil
  return found
end

-- End a job, with all that comes with its end; from `outside`, or by its holder.
function Singly.finish(job, step, with, outside)
  local state, result, error = Singly.end_of(step)
  local successor = with and job.options.flow and with.successor
  local coming, refusal = {}, nil
  if with then coming, refusal = New.plan(with.jobs, Singly.ending(job, state, successor)) end
  if not coming then return { Settlements.REFUSED, unpack(refusal) } end
  if not outside then
    local left = Singly.left_by(step, with)
    if state ~= is.succeeded or left then History.enter(job, name_of[state], left or error) end
    Settlements.count_processed(state, job.queue, job.worker)
  else
    if job.state == is.running then History.enter(job, 'completed') end
    Ending.revoke(job, 'completed')
  end
  if with and with.writes and job.options.flow then Runs.write(job, with.writes) end
  if successor then job.successor, successor.before = successor.ref, job.queue end
  Ending.finish(job, state, result, error, not outside and job.worker or nil, not outside)
  local ended = Ending.follow(job, name_of[state])
  ended[#ended + 1] = job
  -- Between the end and the drop: a child may take the key that has just come free, or wait for its parent.
  for _, child in ipairs(New.add_all(coming)) do ended[#ended + 1] = child end
  Ending.drop_unkept(ended)
  return Settlements.OK
end

function Singly.settle(ref, token, step, with)
  local job = Jobs.load(ref)
  if not job then return Settlements.NOT_FOUND end
  if '\206' .. struct.pack('>I4', job.fence) .. '\176' .. job.nonce ~= token then return Settlements.LEASE_LOST end
  if job.state ~= is.running then return Settlements.OK end  -- this very token has settled it before, and the answer was lost
  local kind = string.byte(step)
  if kind == Settlements.REQUEUE then
    Singly.requeue(job, step)
  elseif kind == Settlements.PARK then
    Singly.park(job, step)
  else
    return Singly.finish(job, step, with)
  end
  return Settlements.OK
end

end)

-- Apply each step under its token; one verdict each.
function Settling.settle()
  local items, verdicts = Settlements.read(), {}
  local function settle_singly(i)
    verdicts[i] = Singly.settle(items.refs[i], items.tokens[i], items.steps[i], items.coming[i])
  end
  local records, firsts, to_close = Settling.finish_plainly(items, verdicts)
  local handing = next(items.coming) and Handing.begin(items, records, firsts)
  local closing = to_close and Closing.begin()
  local function finish_together()
    if closing then Closing.go(closing) end
    if handing then Handing.go(handing, settle_singly) end
  end
  for _, group in ipairs(items.groups) do
    for i = group.first, group.last do
      if verdicts[i] then
        if closing and to_close[i] then
          -- Those before it come before its dependents in line.
          if handing and #handing.batch > 0 then finish_together() end
          Closing.close(closing, items.refs[i], select(2, Singly.end_of(items.steps[i])))
        end
      elseif handing and Handing.takes(handing, i) then
        Handing.add(handing, group, i)
        verdicts[i] = Settlements.OK
      else
        finish_together()
        settle_singly(i)
      end
    end
  end
  finish_together()
  return verdicts
end
