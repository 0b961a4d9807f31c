"""The connectors that come with Moldau: each module is a Python data source, which `moldau.connect` and Spark run.

databases/: what the connectors of databases share
datagen: random rows of given columns
files/: lines, JSON and CSV from files and to files, and Kafka's FileStreamSource and FileStreamSink
http/: polls an HTTP server with a cursor, or sends records to one
json_values: values of rows as JSON, and the other way round
postgresql: rows of PostgreSQL
s3/: objects in stores with Amazon S3's protocol
sqlite: rows of SQLite
written_batch: which batch a sink writes
"""
