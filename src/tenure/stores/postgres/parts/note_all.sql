-- note_all: `note`, by JSON: an array of change, id, task and queue for each.
CREATE OR REPLACE FUNCTION note_all(_told json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('tenure.deferred', true) = 'on' THEN
        RETURN;
    END IF;
    PERFORM set_config('tenure.noted', (noted() + 1)::text, true);
    RAISE INFO USING ERRCODE = 'TN010', MESSAGE = 'consequences', DETAIL = _told;
END
$$;
