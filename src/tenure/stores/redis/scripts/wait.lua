-- wait: read the jobs that are final, and subscribe to the end of the others. Atomic, so that no job ends in between
-- unnoticed. The ref of a run means its current step.
-- ARGV: time, id of the caller's channel, refs.
-- Returns: for each a description as `Reading.describe` gives it if final, false if it does not exist, 0 if it is announced
-- later.
-- include: script, write_when_full, totals, jobs, flows, runs, edges, reading, recent, finish

local channel, refs = Script.arg(), Script.remaining_args()
Jobs.load_all(refs)
local answers, final, at = {}, {}, {}
for i, ref in ipairs(refs) do
  local job = Runs.current_step_of(ref)
  if not job then
    answers[i] = false
  elseif Jobs.final(job.state) then
    final[#final + 1], at[#at + 1] = job.ref, i
  else
    answers[i] = 0
    local channels = redis.call('HGET', Key.waiters, ref) or ''
    if not string.find(channels, channel, 1, true) then
      redis.call('HSET', Key.waiters, ref, channels .. ' ' .. channel)
    end
    local awaited = Jobs.load(ref)
    if not Jobs.has(awaited, flag.awaited) then Jobs.mark(awaited, flag.awaited) end
  end
end
for n, each in ipairs(Reading.describe_all(final)) do answers[at[n]] = each end
return Script.finish(answers)
