"""What benchmarks of rivals share: the machine line, the report, and processes of rivals."""
