-- find_workers: `registered_workers` for programs of layout 11, which know no orders.
CREATE OR REPLACE FUNCTION find_workers(_now float8) RETURNS TABLE (
    id text, host text, pid bigint, queues text[], tasks text[], concurrency integer, lanes text[], pulse text, started_at float8,
    silent_for float8, totals json, release text
) LANGUAGE sql AS $$
    SELECT id, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, silent_for, totals, release
    FROM registered_workers(_now)
$$;
