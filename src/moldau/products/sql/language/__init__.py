"""The language of streaming SQL: text to statements. Expressions stay text, because Spark reads them.

errors: an error at a place of the text
parser/: tokens to statements
queries: a query as a value: its clauses
statements: one class for each statement
tokens: the tokens of a text, with places; blanks and comments are kept
"""
