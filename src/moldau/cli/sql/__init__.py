"""`moldau sql`: streaming SQL over topics.

engines: flags and settings of an engine in this process
shell: `moldau sql` and `moldau sql shell`
scripts: `moldau sql run` and `moldau sql test`
serve: `moldau sql serve`
sql: the noun and its verbs
"""
