"""Small training loops with the right answer beside each: what leaks, at which line and how fast, and what
does not.

`leaks_*.py`, `warnings_*.py` and `clean_*.py` hold the loops; importing them fills the registry in `scene`.
"""
