"""Runs a script unmodified: run_script.py SCRIPT ARGUMENTS. Pydantic reads no TypedDict of Python's own before Python 3.12, and
those of tinker-cookbook 0.1.0 are."""

import os
import runpy
import sys
import typing

import typing_extensions

typing.TypedDict = typing_extensions.TypedDict
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
