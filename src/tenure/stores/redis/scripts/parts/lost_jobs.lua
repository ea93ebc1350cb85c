-- Takes jobs from workers that are silent or dead.

local LostJobs = {}

-- Take a running job from its holder. It goes to the front of the line, or fails as lost once it reaches `max_losses`.
-- Returns { ref, queue, task, worker, losses, whether it failed }.
function LostJobs.lose(job, reason)
  local losses, most = job.losses + 1, job.options.max_losses or 3
  local failed = most > 0 and losses >= most and (Jobs.has(job, flag.solo) or most == 1)
  local worker = job.worker
  Totals.count('lost', job.queue, worker)
  Ending.revoke(job, 'taken')
  local error = RecordedError.LOST .. ' ' .. losses .. ((reason or '') ~= '' and ' ' .. reason or '')
  History.add(job, 'lost', error)
  Jobs.remove_from_indexes(job)
  job.state, job.losses, job.result, job.error = is.waiting, losses, nil, error
  Jobs.add_to_indexes(job)
  if failed then
    Ending.finish_and_propagate(job, is.failed, nil, nil, worker)
  else
    Script.add_new_work(job.queue)
  end
  return { job.ref, job.queue, job.task, worker, losses, failed }
end

function LostJobs.lose_all(jobs, reason)
  local lost = {}
  for i, job in ipairs(jobs) do lost[i] = LostJobs.lose(job, reason) end
  return lost
end
