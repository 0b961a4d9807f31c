"""The connectors that come with Moldau: each module is a Python data source, which `moldau.connect` and Spark run.

databases/: what the connectors of databases share
datagen: random rows of given columns
postgresql: rows of PostgreSQL
sqlite: rows of SQLite
"""
