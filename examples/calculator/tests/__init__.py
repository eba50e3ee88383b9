"""Tests: `python3 -m unittest` in the directory above."""
