"""A sink for object stores with Amazon S3's protocol: Parquet, JSON lines or Avro, by time or by field, exactly once.

avro: schemas of Avro and their values
connector: the class `s3`
formats: rows as the bytes of an object
layout: names of objects
settings: the settings
store: writes objects
writer: the sink
"""
