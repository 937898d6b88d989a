"""Columns in and out: sums of all columns, tables in Arrow's memory layout, loading, size."""
