"""The connectors that come with Moldau: each module is a Python data source, which `moldau.connect` and Spark run.

datagen: random rows of given columns
"""
