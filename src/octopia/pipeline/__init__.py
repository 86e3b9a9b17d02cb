"""The data pipeline, on Spark: everything that processes data in bulk.

Functions take DataFrames and return DataFrames; ``jobs`` reads and writes them. The stages:

- ``ingest`` and ``market`` provide bars, from files or from a synthetic market;
- ``schedule`` makes publications from bars, ``generation`` makes advertisements and subscriptions, and ``placement``
  assigns clients to brokers;
- ``truth`` finds every pair of a publication and a subscription that matches, with two engines that share no code;
- ``sweep`` runs many simulations, one per task;
- ``metrics`` turns traces into the tables behind figures, and ``audit`` compares deliveries with the truth.

This is the only package that imports pyspark. It runs on one machine by default, and unchanged on many: it uses no RDDs
and no broadcast objects, and keeps nothing in the driver's memory alone. Workers read additional tables by path.
"""
