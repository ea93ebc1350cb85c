-- check_name: Return `_name` if it is a valid name of this `_kind`; else raise invalid_parameter_value.
CREATE OR REPLACE FUNCTION check_name(_kind text, _name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN check_value(
        _name, coalesce(_name ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}$', false), _kind,
        'a letter or digit and then up to 126 letters, digits or any of _ . : -'
    );
END
$$;
