"""The language of streaming SQL: text to statements. Expressions stay text, because Spark reads them.

brackets: which bracket closes which; bounds of nesting
column_types: the types in CAST as Spark's
concatenations: texts joined by `+` and `||`
errors: an error at a place of the text
expressions: ksqlDB's spelling in the tokens of an expression
functions/: ksqlDB's functions as Spark SQL
parser/: tokens to statements
pieces: rewritten text, and where each piece comes from
queries: a query as a value: its clauses
rewrites: expressions and queries as Spark SQL; the two dialects
statements: one class for each statement
times: ksqlDB's own times compared with texts
tokens: the tokens of a text, with places; blanks and comments are kept
"""
