"""Workloads: reading them, and running them in virtual time or on real brokers.

A workload is a folder of tables made by the pipeline. Running one needs pyarrow but not Spark. Both kinds of run write
a trace of the same form, so the same audit and the same metrics apply to both.
"""
