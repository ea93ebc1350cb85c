-- Layout 4: jobs that have come back in line are found without walking over the line.

-- Few, for most jobs are leased once; and none that was never leased, so that a plain job is not written here at all.
CREATE INDEX live_returned ON live (queue, priority, seq) WHERE state = 'waiting' AND run_at IS NULL AND fence > 0 AND NOT suspect;
