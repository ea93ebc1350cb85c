"""What users do with jobs: enqueue them, wait for them, list and change them, lease them by hand."""
