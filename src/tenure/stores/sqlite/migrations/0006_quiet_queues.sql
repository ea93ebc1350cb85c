-- Layout 6: queues that have been empty for long are deleted.
-- A program that knows only the layout before this one keeps working: what it counts changes the totals, and so invalidates quiet_since.

ALTER TABLE tenure_queues ADD COLUMN quiet_since REAL;      -- when pruning first found the queue empty; NULL if it never has
ALTER TABLE tenure_queues ADD COLUMN quiet_totals INTEGER;  -- the sum of its totals at that time
