-- What is to become of jobs, as it comes in the arguments of a step.

local Settlements = {
  OK = 0, LEASE_LOST = 1, NOT_FOUND = 2, REFUSED = 3,
  -- A step begins with its kind; of a plain finish that is the state it leads to, and the result follows as a record has it.
  FINISH = 10, REQUEUE = 11, PARK = 12, HAND_OVER = 13,
}

local hand_overs = {}  -- what the step of one says, which those that are alike share

-- What the first word of a hand-over says.
function Settlements.hand_over(step)
  local says = hand_overs[step]
  if says then return says end
  local at, more, head, _
  at = cmsgpack.unpack_limit(step, 1, 1)
  says = { result = string.sub(step, 2, at) }
  more, says.children, says.names, says.lookups, says.hands_over = cmsgpack.unpack_limit(step, 4, at)
  if more > 0 then
    _, says.before, says.behind, head = cmsgpack.unpack_limit(step, 3, more)
    if head then says.head = Adding.head(head) else says.left, says.before = says.before, nil end
  end
  -- If it does no more than write attributes: the plain finish that it is besides.
  local other = says.hands_over or says.children > 0 or says.lookups or says.left
  says.plain = not other and string.char(is.succeeded) .. says.result
  hand_overs[step] = says
  return says
end

-- The jobs that come with a step, from its arguments; nil if none do. A finish with children goes on with these; a hand-over,
-- which is a success of a step of a run, with what it writes, its children and its successor, if it has them. If the first word
-- says all of the successor that others share, only its ref and its run are to be read. If not, its last may be what the attempt has
-- left.
function Settlements.read_coming(step)
  local kind = string.byte(step)
  if kind == Settlements.FINISH then
    return { jobs = Adding.read_all((select(5, cmsgpack.unpack_limit(step, 4, 1)))) }
  elseif kind == Settlements.HAND_OVER then
    local says = Settlements.hand_over(step)
    local coming = { result = says.result, plain = says.plain, left = says.left }
    coming.writes = Flows.read(says.names, says.lookups)
    if says.before then
      local at = Step.read_so_far
      Step.read_so_far = at + 2
      local ref, run = ARGV[at + 1], ARGV[at + 2]
      local before, behind = says.before, says.behind
      local stored = #run == 16 and before .. '\176' .. run .. behind or before .. cmsgpack.pack(run) .. behind
      coming.successor = { ref = ref, stored = stored, head = says.head, run = run }
      coming.jobs = { coming.successor }
    else
      coming.jobs = Adding.read_all(says.children)
      if says.hands_over then
        coming.successor = Adding.read()
        coming.jobs[says.children + 1] = coming.successor
      end
    end
    return coming
  end
end

-- The settlements of a step, from its arguments: how many groups of one queue and worker; of each group these two, how many,
-- and of each settlement its ref, token and step, and what comes with that.
function Settlements.read()
  local items = { refs = {}, tokens = {}, steps = {}, coming = {}, groups = {} }
  local refs, tokens, steps, n = items.refs, items.tokens, items.steps, 0
  for g = 1, tonumber(Step.arg()) do
    local group = { queue = Step.arg(), worker = Step.arg(), first = n + 1 }
    group.last = n + tonumber(Step.arg())
    for i = group.first, group.last do
      local at = Step.read_so_far
      Step.read_so_far = at + 3
      refs[i], tokens[i], steps[i] = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
      if string.byte(steps[i]) >= Settlements.FINISH then items.coming[i] = Settlements.read_coming(steps[i]) end
    end
    n = group.last
    items.groups[g] = group
  end
  return items
end

-- The refs that jobs wait for which come with these settlements; nil if there are none.
function Settlements.awaited(items)
  local found
  for _, coming in pairs(items.coming) do
    for _, job in ipairs(coming.jobs) do
      if job.after then
        found = found or {}
        for _, ref in ipairs(job.after) do found[ref] = true end
      end
    end
  end
  return found
end

-- A broken job never ran.
function Settlements.count_processed(state, queue, worker, number)
  if state ~= is.broken then Totals.count('processed', queue, worker, number) end
end

-- Move the places of jobs of one group from held to those of an end.
function Settlements.move(group, state, places, family)
  if #places == 0 then return end
  local scored, now = {}, Step.score_of(Step.now)
  for i = 1, #places do scored[2 * i - 1], scored[2 * i] = now, places[i] end
  Step.each_chunk('ZREM', Key.held .. group.queue, places)
  Step.each_chunk('ZADD', family .. name_of[state] .. ':' .. group.queue, scored)
  Totals.hold(group.worker, -#places)
  Totals.count(name_of[state], group.queue, group.worker, #places)
  Settlements.count_processed(state, group.queue, group.worker, #places)
end
