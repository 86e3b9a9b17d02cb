"""The simulator: a whole overlay in virtual time, driving the broker that the network runs."""
