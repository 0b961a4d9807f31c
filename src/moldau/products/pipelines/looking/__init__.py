"""Looks at a pipeline next to its runs.

board/: the board of a run in the browser
graph: a plan as text
outlook: `plan` and `preview`
picture: a plan as a picture
report: a run as a picture
resetting: what a reset does to targets
standing: the status of a pipeline, without Spark
testing: runs the tests of pipelines
"""
