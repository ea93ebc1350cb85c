-- The end of every step that changes jobs.

-- Write all that was gathered.
function Step.done(answer)
  if next(Step.loaded) then Jobs.save_all() end
  if Step.to_sweep >= 200 then Recent.sweep() end
  if next(Step.in_queues) then Totals.write() end
  Step.wake_workers()
  return answer
end
