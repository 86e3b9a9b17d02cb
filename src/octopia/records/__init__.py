"""Publications on disk: spools, archives, history, replay and outboxes."""
