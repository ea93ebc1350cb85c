-- Layout 8: queues that have long been empty are forgotten, by `forget_queues`. Programs of the layout before go on working.

-- Queues that pruning found empty: when it first did, and the sum of the totals then. Other steps do not know of it: if the totals are
-- others now, the note is out of date.
CREATE TABLE quiet (
    queue text COLLATE "C" PRIMARY KEY,
    since float8 NOT NULL,
    totals bigint NOT NULL
) WITH (fillfactor = 50);
