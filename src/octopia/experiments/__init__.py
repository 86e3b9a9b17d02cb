"""Experiments: what joins the simulator and the network, and measures them.

``embedded`` runs an overlay for a while, ``bench`` loads one with publications, ``calibrate`` finds out what the
simulator should assume of this machine.
"""
