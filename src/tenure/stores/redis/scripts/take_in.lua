-- take_in: turn entries of a queue's inbox into jobs, each atomically. Stops at the first entry that is not the one the
-- caller has read, because another worker has taken it.
-- ARGV: time, queue, number of entries; for each the entry, its error (JSON, '' if it is readable) and the job as
-- `NewJobs.read` reads it.
-- Returns: number of entries taken.
-- include: script, totals, jobs, flows, runs, unique, edges, ending, new_jobs, enqueueing, recent, finish

local queue, taken, broken = Script.arg(), {}, {}
for i = 1, tonumber(Script.arg()) do
  local entry, error, new = Script.arg(), Script.arg(), NewJobs.read()
  if redis.call('LINDEX', Key.inbox .. queue, i - 1) ~= entry then break end
  taken[i] = new
  if error ~= '' then broken[new.ref] = error end
end
local added = Enqueueing.add_all(Enqueueing.plan(taken))
for _, new in ipairs(taken) do
  local task = not new.known and select(3, cmsgpack.unpack_limit(new.stored, 2, 10))
  if task then Script.add_consequence(broken[new.ref] and 'broken' or 'enqueued', { ref = new.ref, task = task, queue = new.head.queue }) end
end
for ref, error in pairs(broken) do Ending.finish_and_propagate(Jobs.load(ref), is.broken, nil, error) end
Ending.remove_unkept(added)
-- Last: if a command is refused an entry may become two jobs, but none is lost.
if #taken > 0 then redis.call('LPOP', Key.inbox .. queue, #taken) end
return Script.finish(#taken)
