-- unnote: whatever was noted beyond those messages that count has been undone. Called where an error is caught, which also takes
-- `noted` back to what it was.
CREATE OR REPLACE FUNCTION unnote() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE INFO USING ERRCODE = 'TN011', MESSAGE = 'undone', DETAIL = noted();
END
$$;
