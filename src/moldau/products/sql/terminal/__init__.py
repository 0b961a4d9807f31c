"""The terminal: the shell of SQL, and answers as text.

answers: prints each answer for people, or as JSON
interrupts: Ctrl-C as a flag
live_rows: shows the rows of a query as they come
values: values as text and as JSON
"""
