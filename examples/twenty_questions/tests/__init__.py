"""Tests of the example: python -m unittest (in the example's directory)"""
