-- Layout 10: schedules. Programs of the layout before go on working: they do not know the table.

CREATE TABLE schedules (
    name text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL,                -- JSON, which no function reads
    version bigint NOT NULL,               -- number of writes, from 1; a confirmation is none
    next float8,                           -- the tick to fire next; NULL: none is left
    active boolean NOT NULL,               -- whether it is due when `next` has come
    tick float8,                           -- the newest tick that was decided
    last text COLLATE "C",                 -- id of the last job or run that it enqueued, which may be gone
    seen_at float8 NOT NULL,               -- when it was created or last confirmed
    history text[] NOT NULL                -- the latest ticks, oldest first, each a JSON object: `TickRecord`
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX schedules_due ON schedules (next, name) WHERE active AND next IS NOT NULL;
