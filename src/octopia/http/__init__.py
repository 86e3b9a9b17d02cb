"""HTTP beside brokers: health, metrics, reports as JSON, a live feed, and the live map.

Nothing here is imported unless a process is started with ``--http``. The protocol is pure, as everywhere: ``exchange``
turns bytes into requests and responses into bytes, ``websocket`` does the same for WebSockets, ``guard`` decides who
may ask, ``commands`` parses commands, and ``metrics``, ``meter``, ``story`` and ``feed`` make the contents. ``server``
has the sockets, ``watch`` the clock, ``site`` answers, ``sources`` ask the brokers, and ``process`` runs it all.
"""
