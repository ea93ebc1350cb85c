-- fold_counters: Call `fold_tallies` in its own transaction, because it locks rows that others fold into.
CREATE OR REPLACE FUNCTION fold_counters() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fold_tallies();
END
$$;
