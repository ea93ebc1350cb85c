-- add_mark: store a mark at the time ?1 with the label ?2.
INSERT INTO tenure_marks (at, label) VALUES (?1, ?2)
