"""What benchmarks of rivals share: options of the commands, the machine line, the report, and processes of rivals."""
