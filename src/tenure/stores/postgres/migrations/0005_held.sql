-- Layout 5: functions only. `held_under` finds the jobs of a lease whose answer was lost; `settle_all` reports jobs that it
-- has removed; dependents of a run and of its last step join the line in one order.

DROP FUNCTION IF EXISTS close_edges(float8, text[], text[]);  -- it has one more parameter
