"""Its place makes ``tests/`` importable, so that every test can say ``from support import …``."""
