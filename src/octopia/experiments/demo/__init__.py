"""The demo: one workload on real brokers with slow links, under static and under dynamic routing.

``plan`` has the workload and the overlay, ``outcome`` plays it under both algorithms, ``delays`` reads the traces,
``pictures`` and ``report`` show the results.
"""
