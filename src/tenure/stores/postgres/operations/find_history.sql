-- find_history: Rows of the slots of a resolution that begin from `_since` on and before `_until`, by slot, queue and task,
-- without slots that are older than `_kept_for` seconds. `_kind`: `one` (of `_queue` and `_task`), `queues` (of every queue,
-- without tasks) or `tasks` (of every pair).
CREATE OR REPLACE FUNCTION find_history(
    _now float8, _resolution integer, _kept_for float8, _since float8, _until float8, _kind text, _queue text, _task text
) RETURNS TABLE (slot float8, queue text, task text, counts jsonb, gauges jsonb) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    _now := clock(_now);
    IF _kind = 'one' THEN
        RETURN QUERY
        SELECT m.slot, m.queue, m.task, m.counts, m.gauges FROM measures m
        WHERE m.resolution = _resolution AND m.slot >= _since AND m.slot < _until AND m.slot > _now - _kept_for
          AND m.queue = _queue AND m.task = _task
        ORDER BY m.slot;
    ELSE
        RETURN QUERY
        SELECT m.slot, m.queue, m.task, m.counts, m.gauges FROM measures m
        WHERE m.resolution = _resolution AND m.slot >= _since AND m.slot < _until AND m.slot > _now - _kept_for
          AND CASE _kind WHEN 'queues' THEN m.queue <> '' AND m.task = '' ELSE m.task <> '' END
        ORDER BY m.slot, m.queue, m.task;
    END IF;
END
$$;
