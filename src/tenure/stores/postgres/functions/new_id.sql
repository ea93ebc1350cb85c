-- new_id: A new job id as producers make them: a UUID of version 7, which sorts by time.
CREATE OR REPLACE FUNCTION new_id() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _bytes bytea := uuid_send(gen_random_uuid());
BEGIN
    _bytes := overlay(_bytes PLACING substring(int8send((clock(NULL) * 1000)::bigint) FROM 3) FROM 1 FOR 6);
    RETURN encode(set_byte(_bytes, 6, get_byte(_bytes, 6) & 15 | 112), 'hex')::uuid;
END
$$;
