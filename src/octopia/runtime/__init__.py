"""The network: brokers over TCP.

This drives the very broker and sessions that the simulator drives. ``links`` are the ends of links, ``shaping`` makes
them slow on purpose, ``node`` runs one broker, ``local`` a whole overlay inside the caller's process.
"""
