-- decode_payloads: Decode base64 payloads, which calls in a caller's transaction send because JSON cannot hold bytes.
CREATE OR REPLACE FUNCTION decode_payloads(_payloads text[]) RETURNS bytea[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT decode(payload, 'base64') FROM unnest(_payloads) WITH ORDINALITY AS each (payload, at) ORDER BY at)
$$;
