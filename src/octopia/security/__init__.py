"""Identities: certificates of brokers, tokens of clients, and the permissions that a token gives."""
