-- noted: how many messages of `note` have been sent in this transaction for what is not undone.
CREATE OR REPLACE FUNCTION noted() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('tenure.noted', true), '')::integer, 0)
$$;
