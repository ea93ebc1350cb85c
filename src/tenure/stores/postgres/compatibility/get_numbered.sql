-- get_numbered: `get_by_number` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION get_numbered(_ns bigint[]) RETURNS SETOF records LANGUAGE sql AS $$
    SELECT * FROM get_by_number(_ns)
$$;
