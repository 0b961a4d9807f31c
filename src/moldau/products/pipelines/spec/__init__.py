"""Pipeline files, of YAML or Python, and what is wrong with them.

cases: the section `tests`
conflicts: what several pipelines must not share
keys: keys that belong to no kind of source, target or format
module: a pipeline as a Python module
offline: checks without Spark
reference_page: writes docs/reference/pipelines/keys.md
spec: a pipeline file of YAML
"""
