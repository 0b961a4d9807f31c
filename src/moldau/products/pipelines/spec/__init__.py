"""Reads and checks pipeline files, in YAML or Python.

cases: the section `tests`
conflicts: names and places that several pipelines share by mistake
keys: keys that belong to no kind of source, target or format
module: a pipeline as a Python module
offline: checks without Spark
reference_page: writes docs/reference/pipelines/keys.md
spec: a pipeline file of YAML
"""
