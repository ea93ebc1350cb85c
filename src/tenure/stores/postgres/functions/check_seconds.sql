-- check_seconds: give a duration back if it is one.
CREATE OR REPLACE FUNCTION check_seconds(_name text, _seconds float8) RETURNS float8 LANGUAGE plpgsql AS $$
BEGIN
    -- NaN is greater than everything.
    RETURN check_value(_seconds, _seconds >= 0 AND _seconds < 'Infinity', _name, 'a finite number of seconds, 0 or more');
END
$$;
