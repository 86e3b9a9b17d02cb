"""The demo: one workload on real brokers with slow links, under static and under dynamic routing.

``plan`` says what is played on which overlay, ``running`` does it, ``delays`` reads the traces, ``pictures`` and
``report`` show what came of it.
"""
