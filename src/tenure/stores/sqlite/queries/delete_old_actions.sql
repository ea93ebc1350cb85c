-- delete_old_actions: delete all but the latest ?1 actions, and those from the time ?2 or before. Only the oldest are ever deleted, so
-- the numbers of the others have no gaps.
DELETE FROM tenure_actions WHERE n <= (SELECT max(n) FROM tenure_actions) - ?1 OR at <= ?2
