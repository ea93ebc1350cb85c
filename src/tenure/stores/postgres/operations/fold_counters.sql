-- fold_counters: `fold_tallies`, in a transaction of its own: it locks rows that others fold into.
CREATE OR REPLACE FUNCTION fold_counters() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fold_tallies();
END
$$;
