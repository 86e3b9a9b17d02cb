"""The simulator: a whole overlay in virtual time, driving the same broker as the network runtime."""
