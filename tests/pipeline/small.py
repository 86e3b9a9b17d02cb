"""The workload that several tests share."""

from octopia.pipeline.spec import Burst, WorkloadSpec

SMALL = WorkloadSpec(
    tree="path:3",
    clusters=2,
    publishers=8,
    publications=30,
    subscribers=120,
    selectivity=0.1,
    burst=Burst(publications=60, per_minute=6000.0, start_ms=1000.0, share=0.05),
    seed=3,
)
"""Six brokers and 300 publications: enough for every rule, and fast."""

BURST_STUDY = """
title = "Small bursts"
[workload]
tree = "path:3"
clusters = 2
publishers = 4
publications = 5
subscribers = 40
selectivity = 0.5
meaning = "publishers"
[workload.burst]
publications = 40
share = 0.1
start_ms = 500
per_minute = [60000]
[run]
algorithm = ["static", "dynamic"]
sample_ms = 10.0
[tiny]
[laptop]
[paper]
"""
"""A version of the burst study's experiment file that takes seconds."""
