"""`moldau connect`: connectors, and the service that runs them.

calls: calls to the REST interface of a worker
connect: the noun and its verbs
connectors: verbs about connectors
files: configurations of connectors in files
new: `moldau connect new`, with the templates in `package`
offsets: `moldau connect offsets`
plugins: `moldau connect plugins` and `moldau connect validate`
rows: rows of a file as records, for `moldau connect test`
serve: `moldau connect serve`
tests: `moldau connect test`
"""
