"""The board of a run.

board: the service with `/metrics` and `/status.json`
pages: paths and the page
state: the state of a run, told by the runner
"""
