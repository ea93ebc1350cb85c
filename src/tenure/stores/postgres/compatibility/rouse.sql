-- rouse: `wake_worker` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION rouse(_queue text) RETURNS void LANGUAGE sql AS $$
    SELECT wake_worker(_queue)
$$;
