"""Files at the edge: read, checked and turned into values here, and written from values here; nowhere else.

JSON and TOML carry one schema. What a person writes is checked against shapes (frozen dataclasses, by pydantic,
strictly: no text for numbers, no unknown keys); every error names the key's full path, the limit and the value.
"""
