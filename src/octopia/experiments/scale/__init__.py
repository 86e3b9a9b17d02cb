"""The growth of OctopiA beyond the paper: more regions, more clusters, more subscriptions, and the cost of failures.

Runs use the simulator with the real brokers where they fit in memory and time. Formulas give the rest, and are compared
with every run that was simulated.
"""
