-- report_json: Send one report: a JSON array of [change, id, task, queue] for each job. See `report_changes`.
CREATE OR REPLACE FUNCTION report_json(_consequences json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('tenure.deferred', true) = 'on' THEN
        RETURN;
    END IF;
    PERFORM set_config('tenure.noted', (reports_sent() + 1)::text, true);
    RAISE INFO USING ERRCODE = 'TN010', MESSAGE = 'consequences', DETAIL = _consequences;
END
$$;
