"""What users do with jobs: enqueue them, wait for results, list, cancel, retry and delete them, lease them by hand."""
