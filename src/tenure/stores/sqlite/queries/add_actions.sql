-- add_actions: enter actions in the audit. The caller repeats the group of values, one for each action.
INSERT INTO tenure_actions (at, who, tool, what, target, count) VALUES (?, ?, ?, ?, ?, ?)
