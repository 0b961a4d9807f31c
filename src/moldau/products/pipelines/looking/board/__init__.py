"""The board of a run.

board: the service with `/metrics` and `/status.json`
pages: routes and HTML
state: the state of a run, from the runner
"""
