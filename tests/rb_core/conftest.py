"""Makes `model_reference`, which stands beside this file, importable from the folders below."""
