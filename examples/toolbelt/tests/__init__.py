"""Tests of the toolbelt example: python -m unittest discover -s tests -t . (in the example's directory)"""
