-- delete_expired_uniques: forget keys whose window is over.
DELETE FROM tenure_uniques WHERE until IS NOT NULL AND until <= ?1
