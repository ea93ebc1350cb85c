-- Layout 5: a successful attempt that has left output is recorded too. The output is stored in the error column.
-- A program that knows only the layout before this one keeps working. It reads such a record as an error without a type.

-- Every job may have records now. Looking for them in vain adds no measurable cost to a deletion.
DROP TRIGGER tenure_attempts_gone;
CREATE TRIGGER tenure_attempts_gone AFTER DELETE ON tenure_jobs BEGIN
    DELETE FROM tenure_attempts WHERE job = old.n;
END;
