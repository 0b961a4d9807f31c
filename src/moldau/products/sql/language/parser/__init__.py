"""Reads tokens from left to right as statements. Each error names its place, what was expected, and the nearest word.

administration: INSERT, SHOW, DESCRIBE, PRINT, PAUSE, SET, DEFINE, RUN SCRIPT
assertions: ASSERT
clauses: where the clauses of a query begin
columns: lists in parentheses: columns, properties, names, values
cursor: the tokens of one statement, from left to right
definitions: CREATE and DROP
queries: a query into its clauses
refused: statements of ksqlDB and Spark that are not served
relations: what FROM names, and joins
script: a script into statements; `parse_script`
type_names: types with the names of ksqlDB or Spark
variables: `${name}` in the tokens of a statement
windows: WINDOW, and WITHIN of a join
"""
