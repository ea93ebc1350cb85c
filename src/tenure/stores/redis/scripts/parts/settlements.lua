-- What is to become of jobs, as it comes in the arguments of a step.

local Settlements = {
  -- A step begins with its kind; of a plain finish that is the state it leads to, and the result follows as a record has it.
  FINISH = 10, REQUEUE = 11, PARK = 12, HAND_OVER = 13,
}

local parsed_hand_overs = {}  -- what the step of one parsed, which those that are alike share

-- What the first word of a hand-over parsed.
function Settlements.parse_hand_over(transition)
  local parsed = parsed_hand_overs[transition]
  if parsed then return parsed end
  local at, more, head, _
  at = cmsgpack.unpack_limit(transition, 1, 1)
  parsed = { result = string.sub(transition, 2, at) }
  more, parsed.children, parsed.names, parsed.lookups, parsed.hands_over = cmsgpack.unpack_limit(transition, 4, at)
  if more > 0 then
    _, parsed.before, parsed.behind, head = cmsgpack.unpack_limit(transition, 3, more)
    if head then parsed.head = NewJobs.head(head) else parsed.left, parsed.before = parsed.before, nil end
  end
  -- If it does no more than write attributes: the plain finish that it is besides.
  local other = parsed.hands_over or parsed.children > 0 or parsed.lookups or parsed.left
  parsed.plain = not other and string.char(is.succeeded) .. parsed.result
  parsed_hand_overs[transition] = parsed
  return parsed
end

-- The jobs that come with a step, from its arguments; nil if none do. A finish with children goes on with these; a hand-over,
-- which is a success of a step of a run, with what it writes, its children and its successor, if it has them. If the first word
-- parsed all of the successor that others share, only its ref and its run are to be read. If not, its last may be what the attempt has
-- left.
function Settlements.read_new_jobs(transition)
  local kind = string.byte(transition)
  if kind == Settlements.FINISH then
    return { jobs = NewJobs.read_all((select(5, cmsgpack.unpack_limit(transition, 4, 1)))) }
  elseif kind == Settlements.HAND_OVER then
    local parsed = Settlements.parse_hand_over(transition)
    local coming = { result = parsed.result, plain = parsed.plain, left = parsed.left }
    coming.writes = Flows.read_writes(parsed.names, parsed.lookups)
    if parsed.before then
      local at = Script.args_read
      Script.args_read = at + 2
      local ref, run = ARGV[at + 1], ARGV[at + 2]
      local before, behind = parsed.before, parsed.behind
      local stored = #run == 16 and before .. '\176' .. run .. behind or before .. cmsgpack.pack(run) .. behind
      coming.successor = { ref = ref, stored = stored, head = parsed.head, run = run }
      coming.jobs = { coming.successor }
    else
      coming.jobs = NewJobs.read_all(parsed.children)
      if parsed.hands_over then
        coming.successor = NewJobs.read()
        coming.jobs[parsed.children + 1] = coming.successor
      end
    end
    return coming
  end
end

-- The settlements of a step, from its arguments: how many groups of one queue and worker; of each group these two, how many,
-- and of each settlement its ref, token and step, and what comes with that.
function Settlements.read()
  local items = { refs = {}, tokens = {}, transitions = {}, coming = {}, groups = {} }
  local refs, tokens, transitions, n = items.refs, items.tokens, items.transitions, 0
  for g = 1, tonumber(Script.arg()) do
    local group = { queue = Script.arg(), worker = Script.arg(), first = n + 1 }
    group.last = n + tonumber(Script.arg())
    for i = group.first, group.last do
      local at = Script.args_read
      Script.args_read = at + 3
      refs[i], tokens[i], transitions[i] = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
      if string.byte(transitions[i]) >= Settlements.FINISH then items.coming[i] = Settlements.read_new_jobs(transitions[i]) end
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

-- Move the members of jobs of one group from held to those of an end.
function Settlements.move_to_ended(group, state, members, family)
  if #members == 0 then return end
  local scored, now = {}, Script.score_of(Script.now)
  for i = 1, #members do scored[2 * i - 1], scored[2 * i] = now, members[i] end
  Script.call_in_chunks('ZREM', Key.held .. group.queue, members)
  Script.call_in_chunks('ZADD', family .. name_of[state] .. ':' .. group.queue, scored)
  Totals.add_held(group.worker, -#members)
  Totals.count(name_of[state], group.queue, group.worker, #members)
  Settlements.count_processed(state, group.queue, group.worker, #members)
end
