-- renew: extend each lease and store the progress of its job, if its token is still valid.
-- ARGV: time, number of renewals; for each its ref, token, queue, seconds from now ('' to leave the lease as it is),
-- progress (JSON, '' for none).
-- Returns: for each false if renewed; else the state of the job now, -1 if it is gone.
-- include: script, write_when_full, totals, jobs

local answers, longest = {}, {}
for i = 1, tonumber(Script.arg()) do
  local ref, token, queue, ttl, progress = Script.arg(), Script.arg(), Script.arg(), tonumber(Script.arg()), Script.arg()
  local record = redis.call('HGET', Key.records, ref)
  if record and string.byte(record, 2) == is.running and string.sub(record, 4, 25) == token then
    if ttl then
      redis.call('ZADD', Key.held .. queue, Script.score_of(Script.now + ttl), string.sub(record, -6) .. ref)
      Script.set_due(queue, Script.now + ttl)
      longest[queue] = math.max(longest[queue] or 0, ttl)
    end
    local job = progress ~= '' and Jobs.load(ref)
    if job then
      job.result, job.changed = progress, true
    end
    answers[i] = false
  elseif redis.call('HEXISTS', Key.jobs, ref) == 0 then
    answers[i] = -1
  else
    answers[i] = record and string.byte(record, 2) or is.waiting
  end
end
Jobs.save_all()
Script.write_due_times()
for queue, seconds in pairs(longest) do Totals.raise_longest_lease(queue, seconds) end
return answers
