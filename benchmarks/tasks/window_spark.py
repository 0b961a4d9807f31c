"""The purchases of each country in each minute, once the minute is over."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, from_json, struct, sum, to_json, window

servers, folder = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
schema = "id bigint, user string, country string, amount double, at timestamp"
records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "orders")
records = records.option("startingOffsets", "earliest").load()
orders = records.select(from_json(col("value").cast("string"), schema).alias("order")).select("order.*")
minutes = orders.withWatermark("at", "10 seconds").groupBy("country", window("at", "1 minute"))
sums = minutes.agg(count("*").alias("orders"), sum("amount").alias("amount"))
rows = sums.select("country", col("window.start").alias("start"), "orders", "amount")
writer = rows.select(to_json(struct("*")).alias("value")).writeStream.format("kafka")
writer = writer.option("kafka.bootstrap.servers", servers).option("topic", "window-out")
writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
