# shell.py is compiled as it is: every batch passes ``BrokerShell.receive``. Its classes stay Python classes.
