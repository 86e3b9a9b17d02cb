"""The network: brokers over TCP.

This drives the same nodes that the simulator drives. ``server`` runs one broker, ``process`` the brokers of one process
or of several workers, and ``local`` a whole overlay inside the caller's process. ``admission`` and ``greeters`` handle
new connections, ``lines`` and ``shaping`` those of links, ``operating`` and ``inspecting`` the commands of operators.
``draining`` waits for the end, and ``eventlog`` writes the log.
"""
