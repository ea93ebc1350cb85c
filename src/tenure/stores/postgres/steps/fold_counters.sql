-- fold_counters: `fold`, in a transaction of its own: it locks rows that others fold into.
CREATE OR REPLACE FUNCTION fold_counters() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fold();
END
$$;
