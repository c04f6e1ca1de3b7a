"""Makes the modules beside this file that are no tests importable from the folders below."""
