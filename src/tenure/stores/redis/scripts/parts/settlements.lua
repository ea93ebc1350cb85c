-- Reads settlements from the arguments: leases and the transitions of their jobs.

local Settlements = {
  -- First byte of a transition. A plain finish has the final state there instead, followed by the result as in a record.
  FINISH = 10, REQUEUE = 11, PARK = 12, HAND_OVER = 13,
}

local parsed_hand_overs = {}  -- by the first argument of a hand-over; equal ones are parsed once

-- Parse the first argument of a hand-over.
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
  -- A hand-over that only writes attributes is also a plain finish.
  local other = parsed.hands_over or parsed.children > 0 or parsed.lookups or parsed.left
  parsed.plain = not other and string.char(is.succeeded) .. parsed.result
  parsed_hand_overs[transition] = parsed
  return parsed
end

-- Read the details that follow a transition: new jobs, and what it writes to its run; nil for a transition without any. A
-- finish is followed by its children. A hand-over, the success of a step, is followed by what it writes, its children and
-- its successor. If its first argument contains the shared part of the successor, only the successor's ref and run follow.
-- Otherwise its last value may be what the attempt left.
function Settlements.read_details(transition)
  local kind = string.byte(transition)
  if kind == Settlements.FINISH then
    return { jobs = NewJobs.read_all((select(5, cmsgpack.unpack_limit(transition, 4, 1)))) }
  elseif kind == Settlements.HAND_OVER then
    local parsed = Settlements.parse_hand_over(transition)
    local details = { result = parsed.result, plain = parsed.plain, left = parsed.left }
    details.writes = Flows.read_writes(parsed.names, parsed.lookups)
    if parsed.before then
      local at = Script.args_read
      Script.args_read = at + 2
      local ref, run = ARGV[at + 1], ARGV[at + 2]
      local before, behind = parsed.before, parsed.behind
      local stored = #run == 16 and before .. '\176' .. run .. behind or before .. cmsgpack.pack(run) .. behind
      details.successor = { ref = ref, stored = stored, head = parsed.head, run = run }
      details.jobs = { details.successor }
    else
      details.jobs = NewJobs.read_all(parsed.children)
      if parsed.hands_over then
        details.successor = NewJobs.read()
        details.jobs[parsed.children + 1] = details.successor
      end
    end
    return details
  end
end

-- Read all settlements. ARGV: number of groups; for each group its queue, worker and number of settlements; for each
-- settlement its ref, token, transition and details.
function Settlements.read()
  local items = { refs = {}, tokens = {}, transitions = {}, details = {}, groups = {} }
  local refs, tokens, transitions, n = items.refs, items.tokens, items.transitions, 0
  for g = 1, tonumber(Script.arg()) do
    local group = { queue = Script.arg(), worker = Script.arg(), first = n + 1 }
    group.last = n + tonumber(Script.arg())
    for i = group.first, group.last do
      local at = Script.args_read
      Script.args_read = at + 3
      refs[i], tokens[i], transitions[i] = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
      if string.byte(transitions[i]) >= Settlements.FINISH then items.details[i] = Settlements.read_details(transitions[i]) end
    end
    n = group.last
    items.groups[g] = group
  end
  return items
end

-- The refs that new jobs of these settlements wait for; nil if there are none.
function Settlements.awaited(items)
  local found
  for _, details in pairs(items.details) do
    for _, job in ipairs(details.jobs) do
      if job.after then
        found = found or {}
        for _, ref in ipairs(job.after) do found[ref] = true end
      end
    end
  end
  return found
end

-- Count as processed. A broken job never ran, so it does not count.
function Settlements.count_processed(state, queue, worker, number)
  if state ~= is.broken then Totals.count('processed', queue, worker, number) end
end

-- Move members of one group from `held` to the sorted set of a final state, and count them.
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
