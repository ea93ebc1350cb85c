-- list_queues: Every queue that has counters or an entry in its inbox: its name, whether it is paused, and its counts
-- and totals as JSON.
CREATE OR REPLACE FUNCTION list_queues() RETURNS TABLE (queue text, is_paused boolean, counters json) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.queue, EXISTS (SELECT FROM paused p WHERE p.queue = q.queue), json_object_agg(q.what, q.number)
    FROM (
        SELECT queue, what, sum(number) AS number FROM counted WHERE worker IS NULL GROUP BY queue, what
        UNION ALL SELECT DISTINCT queue, 'inbox', 0 FROM inbox
    ) AS q
    GROUP BY q.queue ORDER BY q.queue;
END
$$;
