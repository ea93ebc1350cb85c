-- Attempts coming to their end.

local Settling = {
  OK = 0, LEASE_LOST = 1, NOT_FOUND = 2, REFUSED = 3,
  -- A step begins with its kind; of a plain finish that is the state it leads to, and the result follows as a record has it.
  FINISH = 10, REQUEUE = 11, PARK = 12,
}

-- The settlements of a step, from its arguments: how many groups of one queue and worker; of each group these two, how many,
-- and of each settlement its ref, token and step. A finish with children goes on with these.
function Settling.read()
  local items = { refs = {}, tokens = {}, steps = {}, children = {}, groups = {} }
  local refs, tokens, steps, n = items.refs, items.tokens, items.steps, 0
  for g = 1, tonumber(Step.arg()) do
    local group = { queue = Step.arg(), worker = Step.arg(), first = n + 1 }
    group.last = n + tonumber(Step.arg())
    for i = group.first, group.last do
      local at = Step.read_so_far
      Step.read_so_far = at + 3
      refs[i], tokens[i], steps[i] = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
      if string.byte(steps[i]) == Settling.FINISH then
        items.children[i] = Adding.read_all(select(5, cmsgpack.unpack_limit(steps[i], 4, 1)))
      end
    end
    n = group.last
    items.groups[g] = group
  end
  return items
end

-- A broken job never ran.
function Settling.count_processed(state, queue, worker, number)
  if state ~= is.broken then Totals.count('processed', queue, worker, number) end
end

-- Nearly every job simply finishes: those that have nothing else about them go together, and change no more than their
-- record and where they stand. The others are left for `Singly`, those that fail among them: they stand in one place more.
function Settling.finish_plainly(items, verdicts)
  local sub, byte, running = string.sub, string.byte, is.running
  local refs, tokens, steps, ended = items.refs, items.tokens, items.steps, cmsgpack.pack(Step.now)
  local records, settled, changed, n = Step.fields_of(Key.records, refs), {}, {}, 0
  local heads, tails = {}, {}
  for _, group in ipairs(items.groups) do
    local gone = { [is.succeeded] = {}, [is.cancelled] = {}, [is.broken] = {} }
    for i = group.first, group.last do
      local record, ref, step = records[i], refs[i], steps[i]
      local state = byte(step)
      local places = gone[state]
      if places and record and byte(record, 2) == running and byte(record, 3) == 0 and not settled[ref]
        and sub(record, 4, 25) == tokens[i] then
        if not tails[step] then
          heads[step] = '\159' .. string.char(state)
          tails[step] = ended .. sub(step, 2) .. '\192\207\0\0'
        end
        local seq = sub(record, -6)
        places[#places + 1] = seq .. ref
        settled[ref], verdicts[i] = true, Settling.OK
        -- Replaced are the state, and the last fields before the seq: end, result and error, all nil so far.
        changed[n + 1], changed[n + 2] = ref, heads[step] .. sub(record, 3, -13) .. tails[step] .. seq
        n = n + 2
      end
    end
    for state, places in pairs(gone) do Settling.move(group, state, places) end
  end
  Step.each_chunk('HSET', Key.records, changed)
end

-- Move the places of jobs of one group from held to ended.
function Settling.move(group, state, places)
  if #places == 0 then return end
  local scored, now = {}, Step.score_of(Step.now)
  for i = 1, #places do scored[2 * i - 1], scored[2 * i] = now, places[i] end
  Step.each_chunk('ZREM', Key.held .. group.queue, places)
  Step.each_chunk('ZADD', Key.ended .. name_of[state] .. ':' .. group.queue, scored)
  Totals.hold(group.worker, -#places)
  Totals.count(name_of[state], group.queue, group.worker, #places)
  Settling.count_processed(state, group.queue, group.worker, #places)
end

-- The others, one by one.
local Singly = later(function(Singly)

function Singly.requeue(job, step)
  local _, delay, run_at, counts, front, missed, error = cmsgpack.unpack_limit(step, 6, 1)
  if counts then
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
  local _, timeout = cmsgpack.unpack_limit(step, 1, 1)
  Jobs.take(job)
  job.state, job.result = is.blocked, nil
  job.parked = timeout and Step.now + timeout or math.huge
  job.attempt, job.misses = job.attempt - 1, 0
  Jobs.set(job, flag.unexpiring, true)
  Jobs.put(job)
end

function Singly.finish(job, step, children)
  local state, result, error = string.byte(step), nil, nil
  if state == Settling.FINISH then
    local _
    _, state, result, error = cmsgpack.unpack_limit(step, 3, 1)
  else
    result = cmsgpack.unpack(string.sub(step, 2))
  end
  local coming, refusal = New.plan(children or {}, children and Ending.with_doomed(job, state))
  if not coming then return { Settling.REFUSED, unpack(refusal) } end
  Settling.count_processed(state, job.queue, job.worker)
  Ending.finish(job, state, result, error, job.worker, true)
  local ended = Ending.follow(job, name_of[state])
  ended[#ended + 1] = job
  -- Between the end and the drop: a child may take the key that has just come free, or wait for its parent.
  for _, child in ipairs(New.add_all(coming)) do ended[#ended + 1] = child end
  Ending.drop_unkept(ended)
  return Settling.OK
end

function Singly.settle(ref, token, step, children)
  local job = Jobs.load(ref)
  if not job then return Settling.NOT_FOUND end
  if '\206' .. struct.pack('>I4', job.fence) .. '\176' .. job.nonce ~= token then return Settling.LEASE_LOST end
  if job.state ~= is.running then return Settling.OK end  -- this very token has settled it before, and the answer was lost
  local kind = string.byte(step)
  if kind == Settling.REQUEUE then
    Singly.requeue(job, step)
  elseif kind == Settling.PARK then
    Singly.park(job, step)
  else
    return Singly.finish(job, step, children)
  end
  return Settling.OK
end

end)

-- Apply each step under its token; one verdict each.
function Settling.settle()
  local items, verdicts = Settling.read(), {}
  Settling.finish_plainly(items, verdicts)
  for i, ref in ipairs(items.refs) do
    if not verdicts[i] then verdicts[i] = Singly.settle(ref, items.tokens[i], items.steps[i], items.children[i]) end
  end
  return verdicts
end
