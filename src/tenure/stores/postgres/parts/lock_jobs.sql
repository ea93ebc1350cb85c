-- lock_jobs: nobody else changes these jobs until this transaction ends. Edges first, as in `follow`; each in order.
CREATE OR REPLACE FUNCTION lock_jobs(_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _ns bigint[] := ARRAY(SELECT n FROM jobs WHERE id = ANY (_ids));
BEGIN
    PERFORM FROM edges WHERE dependent = ANY (_ns) AND open ORDER BY dependent, position FOR UPDATE;
    PERFORM FROM live WHERE n = ANY (_ns) ORDER BY n FOR UPDATE;
    PERFORM FROM ended WHERE n = ANY (_ns) ORDER BY n FOR UPDATE;
END
$$;
