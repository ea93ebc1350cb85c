-- reports_sent: How many reports this transaction has sent that are not rolled back.
CREATE OR REPLACE FUNCTION reports_sent() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('tenure.noted', true), '')::integer, 0)
$$;
