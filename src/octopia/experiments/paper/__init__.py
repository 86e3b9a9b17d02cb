"""The paper's evaluation: studies, rows, figures, the paper's claims beside our results, and the report."""
