-- list_workers: `registered_workers` for programs of layout 10 and before, which know neither releases nor orders.
CREATE OR REPLACE FUNCTION list_workers(_now float8) RETURNS TABLE (
    id text, host text, pid bigint, queues text[], tasks text[], concurrency integer, lanes text[], pulse text, started_at float8,
    silent_for float8, totals json
) LANGUAGE sql AS $$
    SELECT id, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, silent_for, totals FROM registered_workers(_now)
$$;
