"""HTTP: a source that polls a server with a cursor, and a sink that sends records in batches.

connector: the class `http`
pages: records, cursors and links in a page of JSON
reader: the source
requests: requests with retries, without redirects
settings: the settings, and what their texts mean
writer: the sink
"""
