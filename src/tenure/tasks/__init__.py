"""What users define: tasks, flows and their steps, and the context that a running job sees."""
