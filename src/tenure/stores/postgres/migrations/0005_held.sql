-- Layout 5: functions only. `held_under` tells what a lease was given whose answer was lost; `settle_all` tells of a job that it has
-- removed; who waits for a run and who waits for its last step follow in one order.

DROP FUNCTION IF EXISTS close_edges(float8, text[], text[]);  -- it has a parameter more
