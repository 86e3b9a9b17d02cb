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
