"""Files: a source of the lines of files that grow, and a sink to files; also with Kafka's names and keys.

appending: appends a batch to one file, once
arrow: lines as record batches
connectors: the classes
csv_records: records of CSV that span several lines
formats: lines, JSON and CSV as values, and back
lines: the complete lines of files that grow
sink: writes a batch to a staged file, and publishes it
source: the reader of lines
"""
