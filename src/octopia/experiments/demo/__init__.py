"""The demo: one workload on real brokers with slow links and a killed broker, under all algorithms of OctopiA.

``plan`` has the workload and the overlay, ``outcome`` plays it under each algorithm, ``pictures`` and ``report`` show
the results.
"""
