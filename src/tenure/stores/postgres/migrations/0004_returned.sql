-- Layout 4: jobs that have come back in line are found without walking over the line. Of functions, `lease_jobs` takes the place of
-- `lease`: suspects of isolated tasks go to workers that hold others too. Successful attempts that have left output are remembered;
-- it stands in the place of an error, which programs of the layout before read as one of no type.

-- Few, for most jobs are leased once; and none that was never leased, so that a plain job is not written here at all.
CREATE INDEX live_returned ON live (queue, priority, seq) WHERE state = 'waiting' AND run_at IS NULL AND fence > 0 AND NOT suspect;
