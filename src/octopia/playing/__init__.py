"""Workloads, played: in virtual time, or on brokers that run.

A workload is a folder of tables that the pipeline makes; whoever plays it needs no Spark. Both ways leave a trace of
the same form behind, so that the same audit and the same metrics serve both.
"""
