"""The HTTP interface of `moldau sql serve`, in ksqlDB's shapes.

acks: the response of /inserts-stream
bodies: reads and checks requests
commands: the status of statements that were run
entities: answers of statements as ksqlDB's entities
errors: errors as ksqlDB's messages
forms: rows of a query as text, in each form that a client may ask for
inserts: rows of /inserts-stream as INSERT statements
live: queries that send their rows to a client
pieces: responses whose body comes in pieces
routes: paths and their responses
schemas: Spark's types as ksqlDB's
statements: the statements of a request
values: values of a row as JSON
"""
