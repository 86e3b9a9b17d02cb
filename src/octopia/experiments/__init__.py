"""Experiments: measurements of the simulator and the network.

``local_overlay`` runs an overlay on this machine, ``bench`` loads one with publications, ``network_runs`` plays a
workload on one, and ``calibration`` measures the costs that the simulator should assume for this machine. ``paper`` has
the studies of the paper's evaluation, its claims, figures and report. ``scale`` measures growth beyond the paper.
``demo`` is behind ``make demo``. ``page`` and ``charts`` define how results look.
"""
