"""Experiments: what joins the simulator and the network, and measures them.

``embedded`` runs an overlay for a while, ``bench`` loads one with publications, ``networked`` plays a workload on one,
``calibrate`` finds out what the simulator should assume of this machine. ``paper`` has the studies of the paper's
evaluation, every number that the paper claims, and the figures and the report made of results. ``demo`` is what
``make demo`` shows. ``page`` and ``charting`` are how results look.
"""
