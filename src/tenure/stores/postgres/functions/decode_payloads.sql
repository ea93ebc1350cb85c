-- decode_payloads: payloads as an errand has them, in base64, for no JSON could hold their bytes.
CREATE OR REPLACE FUNCTION decode_payloads(_payloads text[]) RETURNS bytea[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT decode(payload, 'base64') FROM unnest(_payloads) WITH ORDINALITY AS each (payload, at) ORDER BY at)
$$;
