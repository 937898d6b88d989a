"""What every benchmark of rivals shares: the machine line and the report."""
