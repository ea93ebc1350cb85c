-- Layout 5: what became of successful attempts too that have left output. It stands in the place of an error.
-- A program of the layout before this one goes on working: it reads such an entry as that of an error of no type.

-- Any job may have some now. To look for none costs a removal too little to be measured.
DROP TRIGGER tenure_attempts_gone;
CREATE TRIGGER tenure_attempts_gone AFTER DELETE ON tenure_jobs BEGIN
    DELETE FROM tenure_attempts WHERE job = old.n;
END;
