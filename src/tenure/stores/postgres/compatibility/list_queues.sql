-- list_queues: `find_queues` for programs of layout 10 and before: of all queues at once, without ages.
CREATE OR REPLACE FUNCTION list_queues() RETURNS TABLE (queue text, is_paused boolean, counters json) LANGUAGE sql AS $$
    SELECT queue, is_paused, counters FROM find_queues(NULL, '', NULL, 0)
$$;
