"""Copies large orders to their own topic."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, struct, to_json

servers, folder = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").getOrCreate()
schema = "id bigint, user string, country string, amount double, at timestamp"
records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "orders")
records = records.option("startingOffsets", "earliest").load()
orders = records.select(from_json(col("value").cast("string"), schema).alias("order")).select("order.*")
large = orders.where("amount >= 50").select(to_json(struct("id", "amount")).alias("value"))
writer = large.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "filter-out")
writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
