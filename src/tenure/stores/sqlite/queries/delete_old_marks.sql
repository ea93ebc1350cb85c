-- delete_old_marks: delete all but the latest ?1 marks. Only the oldest are ever deleted, so their numbers have no gaps.
DELETE FROM tenure_marks WHERE n <= (SELECT max(n) FROM tenure_marks) - ?1
