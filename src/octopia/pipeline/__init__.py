"""The data pipeline, on Spark: everything that touches data in bulk.

Functions take DataFrames and return DataFrames; ``jobs`` reads and writes them. The stages:

- ``ingest`` and ``market`` give bars, read from files or made up;
- ``workload`` makes publications, advertisements and subscriptions of bars, and places clients on brokers;
- ``truth`` knows every publication that every subscription must get, by two engines that share no code;
- ``sweep`` runs many simulations, one a task;
- ``metrics`` turns traces into the tables behind figures, and ``audit`` compares deliveries with the truth.

This is the only package that imports pyspark. It runs on this machine by default, and unchanged on many: no RDDs, no
broadcast objects, nothing that only the driver's memory holds. What workers need beside their rows, they read by path.
"""
