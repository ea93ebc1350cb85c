-- reports_sent: how many messages of `report_changes` have been sent in this transaction for what is not undone.
CREATE OR REPLACE FUNCTION reports_sent() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('tenure.noted', true), '')::integer, 0)
$$;
