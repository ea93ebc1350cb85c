-- Layout 4: jobs that have returned to the line are found without scanning the line. `lease_jobs` replaces `lease`: suspects
-- of isolated tasks also go to workers that hold other jobs. Successful attempts that left output are recorded; the output
-- stands in the place of an error, which programs of the layout before read as an error without a type.

-- Few rows, because most jobs are leased once. A job that was never leased has none, so a plain job is not written here.
CREATE INDEX live_returned ON live (queue, priority, seq) WHERE state = 'waiting' AND run_at IS NULL AND fence > 0 AND NOT suspect;
