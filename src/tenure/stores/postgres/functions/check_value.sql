-- check_value: Return `_value` unless `_holds` is false; then raise invalid_parameter_value: "`_name` must be
-- `_words`".
CREATE OR REPLACE FUNCTION check_value(_value anyelement, _holds boolean, _name text, _words text) RETURNS anyelement
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT _holds THEN
        RAISE EXCEPTION '% must be %, got %', _name, _words, quote_nullable(left(_value::text, 80))
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN _value;
END
$$;
