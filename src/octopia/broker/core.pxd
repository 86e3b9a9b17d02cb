# core.py is compiled as it is: every batch passes ``OctopiaBroker``. Its classes stay Python classes.
