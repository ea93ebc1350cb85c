-- delete_expired_uniques: delete unique keys whose window has ended by ?1.
DELETE FROM tenure_uniques WHERE until IS NOT NULL AND until <= ?1
