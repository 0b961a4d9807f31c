"""The functions of ksqlDB, and the Spark SQL that means the same.

aggregates: aggregate functions
collections: arrays, maps, lambdas, table functions
documents: JSON and URLs
numbers: numbers, nulls, choices
reference_page: writes `docs/reference/sql/functions.md`
row: one function: templates, what differs, what a row knows of a call
table: all rows by name, and the settings of the session
texts: texts and bytes
times: dates, times, timestamps
"""
