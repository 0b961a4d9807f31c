"""A Spark job with the official JVM connector: batch, then stream. `python job.py BOOTSTRAP SOURCE TARGET FOLDER`.

It runs in its own Python: the connector of the newest Spark is not always published when Spark is.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

bootstrap, source, target, folder = sys.argv[1:]
session = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", os.environ["MOLDAU_SPARK_KAFKA_JARS"])
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
session.sparkContext.setLogLevel("ERROR")


def options(what):
    return what.format("kafka").option("kafka.bootstrap.servers", bootstrap)


read = options(session.read).option("subscribe", source).option("includeHeaders", "true").load()
rows = read.orderBy("partition", "offset").collect()
told = [
    [row.partition, row.offset, bytes(row.key).decode(), bytes(row.value).decode(), [h.key for h in row.headers or []]]
    for row in rows
]
options(read.select("key", "value").write).option("topic", target).save()

stream = options(session.readStream).option("subscribe", source).option("startingOffsets", "earliest").load()
query = (
    options(stream.select("key", "value").writeStream)
    .option("topic", target)
    .option("checkpointLocation", folder)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
assert query.exception() is None
written = options(session.read).option("subscribe", target).load().count()
print("RESULT " + json.dumps({"read": told, "written": written, "spark": session.version}))
session.stop()
