"""Shows, plans, tests and draws pipelines.

board/: the board of a run in the browser
graph: a plan as text
outlook: `plan` and `preview`
picture: a plan as a picture
report: a run as a picture
resetting: the effects of a reset on targets
standing: the status of a pipeline, without Spark
testing: runs the tests of pipelines
"""
