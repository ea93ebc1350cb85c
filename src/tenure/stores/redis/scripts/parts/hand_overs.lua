-- Settles plain hand-overs in batches: steps of runs that succeed and add the next step, as nearly all do.

local HandOvers = lazy(function(HandOvers)

-- By index, the run of each settlement whose job is a plain step of a run that may end quietly: no client or job waits for
-- the run, and it has no unique key. Does not check whether the step ends the run.
function HandOvers.quiet_runs(items, records)
  local steps, refs, found = {}, {}, {}
  for i = 1, #items.refs do
    local details = items.details[i]
    local plain = details and details.plain or string.byte(items.transitions[i]) < Settlements.FINISH
    if plain and records[i] and string.byte(records[i], 3) == flag.step then
      steps[#steps + 1], refs[#refs + 1] = i, items.refs[i]
    end
  end
  local runs, of = {}, {}
  for n, stored in ipairs(Script.fields_of(Key.jobs, refs)) do
    local run = stored and (select(6, cmsgpack.unpack_limit(stored, 5, 10))).run
    if run then
      runs[#runs + 1], of[#of + 1] = run, steps[n]
    else
      found[steps[n]] = refs[n]
    end
  end
  for n, first in ipairs(Script.fields_of(Key.records, runs)) do
    local noticed = not first or bit.band(string.byte(first, 3), flag.special + flag.blocks + flag.awaited) ~= 0
    found[of[n]] = not noticed and runs[n]
  end
  return found
end

-- An empty batch of hand-overs among these settlements.
function HandOvers.begin(items, records, firsts)
  return { items = items, records = records, firsts = firsts, batch = {}, groups = {} }
end

-- Whether a settlement is a hand-over that changes only the step's record and index, and puts the next step in line. For
-- the first step of a run nothing else can follow: its waiters and dependents wait for the whole run.
function HandOvers.accepts(hand_overs, i)
  local details = hand_overs.items.details[i]
  local successor = details and details.successor
  if not successor or #details.jobs > 1 or not successor.head.plain or details.writes and details.writes.lookups then return false end
  if details.left then return false end
  local record, ref, byte = hand_overs.records[i], hand_overs.items.refs[i], string.byte
  if not record or byte(record, 2) ~= is.running or string.sub(record, 4, 25) ~= hand_overs.items.tokens[i] then return false end
  local flags = byte(record, 3)
  local plain = flags == flag.step
  if not plain and flags > flag.step then
    local matters = successor.run == ref and flag.detailed or flag.detailed + flag.special + flag.blocks + flag.awaited
    -- A value in the field `parked` is the step that follows because the parking timed out.
    plain = bit.band(flags, matters) == 0 and byte(record, -13) == 192
  end
  return plain and hand_overs.firsts[ref] == i and not Script.loaded[ref]
end

function HandOvers.add(hand_overs, group, i)
  local n = #hand_overs.batch + 1
  hand_overs.batch[n], hand_overs.groups[n] = i, group
end

-- For each successor, whether it can be added: its ref is new, and the run has the attributes that it needs.
function HandOvers.unobstructed(successors)
  local refs, seen, free = {}, {}, {}
  for n = 1, #successors do refs[n] = successors[n].ref end
  for n, known in ipairs(Script.fields_of(Key.jobs, refs)) do
    local needs, ref = successors[n].head.needs, refs[n]
    free[n] = not known and not seen[ref] and not (needs and Flows.missing(successors[n].run, needs))
    seen[ref] = true
  end
  return free
end

-- Write the batch. Hand-overs whose successor cannot be added are settled one by one.
function HandOvers.flush(hand_overs, settle_singly)
  local batch, groups, items, records, sub = hand_overs.batch, hand_overs.groups, hand_overs.items, hand_overs.records, string.sub
  if #batch == 0 then return end
  hand_overs.batch, hand_overs.groups = {}, {}
  local successors, planned, changed, gone, left = {}, {}, {}, {}, {}
  for n, i in ipairs(batch) do successors[n] = items.details[i].successor end
  local head, ended = '\159' .. string.char(is.succeeded), cmsgpack.pack(Script.now)
  for n, free in ipairs(HandOvers.unobstructed(successors)) do
    local i, group, successor = batch[n], groups[n], successors[n]
    if free then
      local ref, record, details = items.refs[i], records[i], items.details[i]
      local seq, size = sub(record, -6), #changed
      -- Replaces the state and the last fields before the seq: the successor goes in the field `parked`, then follow end,
      -- result and error.
      local next = #successor.ref == 16 and '\176' .. successor.ref or cmsgpack.pack(successor.ref)
      changed[size + 1] = ref
      changed[size + 2] = head .. sub(record, 3, -14) .. next .. ended .. details.result .. '\192\207\0\0' .. seq
      local members = gone[group] or {}
      gone[group] = members
      members[#members + 1] = seq .. ref
      if details.writes then Script.call_in_chunks('HSET', Key.attributes .. successor.run, details.writes.attributes) end
      successor.before = group.queue
      planned[#planned + 1] = successor
    else
      left[#left + 1] = i
    end
  end
  -- Successors first: if a later command is refused, the same settle finds them and completes the rest.
  Enqueueing.add_all(planned)
  Script.call_in_chunks('HSET', Key.records, changed)
  for group, members in pairs(gone) do Settlements.move_to_ended(group, is.succeeded, members, Key.apart) end
  for _, i in ipairs(left) do settle_singly(i) end
end

end)
