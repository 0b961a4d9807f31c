"""The terminal: the shell of SQL, and answers as text.

answers: prints each answer for people, or as JSON
completion: what may stand at the cursor
embedded: an engine in this process
interrupts: Ctrl-C as a flag
live_rows: shows the rows of a query as they come
remote: statements and rows of a running `moldau sql serve`
script_run: runs a script until its queries are stopped or done
shell: reads statements and runs them
statements: runs the statements of a text, and of scripts
values: values as text and as JSON
words: the keywords
"""
