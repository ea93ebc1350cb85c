-- report_json: `report_changes`, by JSON: an array of change, id, task and queue for each.
CREATE OR REPLACE FUNCTION report_json(_consequences json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('tenure.deferred', true) = 'on' THEN
        RETURN;
    END IF;
    PERFORM set_config('tenure.noted', (reports_sent() + 1)::text, true);
    RAISE INFO USING ERRCODE = 'TN010', MESSAGE = 'consequences', DETAIL = _consequences;
END
$$;
