-- get_by_number: The records of the jobs with these numbers, in no order.
CREATE OR REPLACE FUNCTION get_by_number(_ns bigint[]) RETURNS SETOF records LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM records WHERE n = ANY (_ns);
END
$$;
