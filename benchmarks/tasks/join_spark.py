"""Adds the customer's name from a compacted topic to each order."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, max, struct, to_json

servers, folder = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
schema = "id bigint, user string, country string, amount double, at timestamp"
records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "orders")
records = records.option("startingOffsets", "earliest").load()
orders = records.select(from_json(col("value").cast("string"), schema).alias("order")).select("order.*")
table = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "users").load()
newest = table.groupBy("key").agg(max(struct("offset", "value")).alias("newest"))
users = newest.select(from_json(col("newest.value").cast("string"), "user string, name string").alias("one"))
users = users.select("one.*").cache()
named = orders.join(users, "user").select("id", "name", "amount")
writer = named.select(to_json(struct("*")).alias("value")).writeStream.format("kafka")
writer = writer.option("kafka.bootstrap.servers", servers).option("topic", "join-out")
writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
