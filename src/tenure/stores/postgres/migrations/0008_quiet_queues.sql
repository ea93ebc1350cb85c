-- Layout 8: `forget_queues` deletes queues that have been empty for long. Programs of the layout before go on working.

-- Queues that pruning found empty: since when, and the sum of their totals then. Other operations do not update it: if the
-- totals have changed since, the row is out of date.
CREATE TABLE quiet (
    queue text COLLATE "C" PRIMARY KEY,
    since float8 NOT NULL,
    totals bigint NOT NULL
) WITH (fillfactor = 50);
