-- wait: read those jobs that are final, nothing for those that do not exist, and 0 for the others, which are announced on
-- this channel when they become final: one step, so that none becomes final in between. The id of a run means its last step.
-- Arguments: the channel, refs. Answers: as `describe` does.
-- include: step, draining, totals, jobs, flows, runs, edges, reading, recent, done

local channel, refs = Step.arg(), Step.rest()
Jobs.load_all(refs)
local told, final, at = {}, {}, {}
for i, ref in ipairs(refs) do
  local job = Runs.meant(ref)
  if not job then
    told[i] = false
  elseif Jobs.final(job.state) then
    final[#final + 1], at[#at + 1] = job.ref, i
  else
    told[i] = 0
    local channels = redis.call('HGET', Key.waiters, ref) or ''
    if not string.find(channels, channel, 1, true) then
      redis.call('HSET', Key.waiters, ref, channels .. ' ' .. channel)
    end
    local awaited = Jobs.load(ref)
    if not Jobs.has(awaited, flag.awaited) then Jobs.mark(awaited, flag.awaited) end
  end
end
for n, each in ipairs(Reading.describe_all(final)) do told[at[n]] = each end
return Step.done(told)
