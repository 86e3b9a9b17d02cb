"""A broker with the sessions of its links, pure: what every driver drives."""
