"""The demo: one workload on real brokers with slow links and a killed broker, under all algorithms of OctopiA.

``plan`` has the workload and the overlay, ``outcome`` plays it under each algorithm, ``outage`` judges what the audit
found after the broker was killed, ``delays`` reads the traces, ``pictures`` and ``report`` show the results.
"""
