-- count_in_line: jobs in line in the queue ?1, as counted.
SELECT waiting, scheduled FROM tenure_queues WHERE name = ?1
