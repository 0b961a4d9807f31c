"""One run of a stream over a checkpoint that moves between Spark's own connector and Moldau's source.

`python moving_job.py FORMAT BOOTSTRAP TOPIC OUTPUT CHECKPOINT BATCHES`: FORMAT is kafka or moldau. The run ends in the
middle of the batch after BATCHES finished ones (0: when all is read). Each batch writes the offsets of its records to
OUTPUT/N; a repeated batch overwrites its first attempt.
"""

import json
import os
import sys
from pathlib import Path

from moldau.spark import open_session

source_format, bootstrap, topic, output, checkpoint, wanted = sys.argv[1:]
session = open_session("moving", {"spark.jars": os.environ["MOLDAU_SPARK_KAFKA_JARS"]}, cores=1)
finished = 0


def write(batch, batch_id):
    global finished
    rows = batch.select("partition", "offset").collect()
    if finished == int(wanted) and finished:
        raise RuntimeError("ended in the middle of a batch, as asked")
    finished += 1
    Path(output, str(batch_id)).write_text(json.dumps([[row.partition, row.offset] for row in rows]))


stream = (
    session.readStream.format(source_format)
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "20")
    .load()
)
writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
query = writer.trigger(availableNow=True).start()
try:
    query.awaitTermination()
except Exception as error:
    if "as asked" not in str(error):
        raise
print("RESULT " + json.dumps({"batches": finished}))
