-- The end of every script that changes jobs.

-- Write everything that the script gathered, and return the reply. If jobs changed that the caller did not name, the reply
-- is wrapped: a marker, the answer, the consequences.
function Script.finish(answer)
  if next(Script.loaded) then Jobs.save_all() end
  if Script.to_sweep >= 200 then Recent.sweep() end
  if next(Script.queue_totals) then Totals.write() end
  Script.wake_workers()
  return Script.consequences and { '\0consequences', answer, Script.consequences } or answer
end
