-- list_marks: the marks from the time ?1 on, in order.
SELECT at, label FROM tenure_marks WHERE at >= ?1 ORDER BY n
