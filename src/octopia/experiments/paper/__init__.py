"""The paper's evaluation: its tables, its figures, its claims beside our numbers, and the report."""
