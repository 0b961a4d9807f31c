"""`moldau sql`: streaming SQL over topics.

engines: flags and settings of an engine in this process
remote: `--server`, a running `moldau sql serve`
scripts: `moldau sql run`
serve: `moldau sql serve`
shell: `moldau sql` and `moldau sql shell`
sql: the noun and its verbs
tests: `moldau sql test`
"""
