# publishing.py is compiled as it is; its classes stay Python classes.
