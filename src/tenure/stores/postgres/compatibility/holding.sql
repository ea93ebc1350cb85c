-- holding: `lease_status` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION holding(_id text, _fence integer, _nonce bigint) RETURNS text LANGUAGE sql AS $$
    SELECT lease_status(_id, _fence, _nonce)
$$;
