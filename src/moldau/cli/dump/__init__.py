"""What lies in the files of a log directory, line by line as Kafka's dump-log tool prints it: `batches` the segments
and snapshots of metadata, `indexes` all other files, `decoders` keys and values of the broker's own topics as JSON.
"""
