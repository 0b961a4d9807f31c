"""Writes Avro orders as Parquet files."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro

servers, folder = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").getOrCreate()
schema = Path(__file__).with_name("order.avsc").read_text()
records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "orders-avro")
records = records.option("startingOffsets", "earliest").load()
orders = records.select(from_avro("value", schema).alias("order")).select("order.*")
writer = orders.writeStream.format("parquet").option("path", f"{folder}/out")
writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
