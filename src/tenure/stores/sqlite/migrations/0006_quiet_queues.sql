-- Layout 6: queues that have long been empty are forgotten.
-- A program of the layout before this one goes on working: what it counts changes the totals, so that a note is out of date.

ALTER TABLE tenure_queues ADD COLUMN quiet_since REAL;      -- when pruning first found the queue empty; NULL: never
ALTER TABLE tenure_queues ADD COLUMN quiet_totals INTEGER;  -- the sum of its totals then
