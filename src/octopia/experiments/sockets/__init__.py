"""The comparison of all algorithms over real sockets, beside the simulator's predictions.

``cases`` has the four cases and the sizes as data, ``runs`` plays, predicts and audits them, ``rows`` has the row of a
run, ``orders`` compares the algorithms pair by pair, ``figures`` and ``report`` show the results.
"""
