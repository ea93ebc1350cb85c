-- check_seconds: Return `_seconds` if it is a finite number of at least 0, or NULL; else raise invalid_parameter_value.
CREATE OR REPLACE FUNCTION check_seconds(_name text, _seconds float8) RETURNS float8 LANGUAGE plpgsql AS $$
BEGIN
    -- NaN is greater than every number.
    RETURN check_value(_seconds, _seconds >= 0 AND _seconds < 'Infinity', _name, 'a finite number of seconds, 0 or more');
END
$$;
