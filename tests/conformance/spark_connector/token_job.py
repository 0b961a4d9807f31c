"""Spark's official connector logs in by delegation tokens that Spark's own provider gets: `python token_job.py
BOOTSTRAP SOURCE TARGET FOLDER SECONDS`.

The provider works without Kerberos (Spark 4.2) in this way: Hadoop's security is on with the method `token`. The
cluster's `kafka.sasl.*` settings replace GSSAPI for the one login that asks for tokens. The login of this process
claims to be renewable, so Spark's manager gets a new token before the last one expires. All other logins are by tokens.
"""

import json
import os
import sys
import time

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

bootstrap, source, target, folder, seconds = sys.argv[1:]
jars = os.environ["MOLDAU_SPARK_KAFKA_JARS"]
cluster = "spark.kafka.clusters.own"
settings = {
    "spark.master": "local[1]",
    # of the driver itself: the session looks for the token provider at its start
    "spark.driver.extraClassPath": jars.replace(",", ":"),
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={os.environ['MOLDAU_LOG4J']}",
    "spark.hadoop.hadoop.security.authentication": "token",
    "spark.kerberos.renewal.credentials": "ccache",
    "spark.security.credentials.renewalRatio": "0.3",
    f"{cluster}.auth.bootstrap.servers": bootstrap,
    f"{cluster}.security.protocol": "SASL_PLAINTEXT",
    f"{cluster}.kafka.sasl.mechanism": "SCRAM-SHA-512",
    f"{cluster}.kafka.sasl.jaas.config": os.environ["MOLDAU_TOKEN_LOGIN"],
}
conf = SparkConf().setAll(list(settings.items()))
SparkContext._ensure_initialized(conf=conf)
security = SparkContext._jvm.org.apache.hadoop.security
login = security.UserGroupInformation.getLoginUser()  # first: no login is possible as `token`
hadoop = SparkContext._jvm.org.apache.hadoop.conf.Configuration()
hadoop.set("hadoop.security.authentication", "token")
security.UserGroupInformation.setConfiguration(hadoop)
login.setAuthenticationMethod(getattr(security, "UserGroupInformation$AuthenticationMethod").KERBEROS)
session = SparkSession.builder.config(conf=conf).getOrCreate()
session.sparkContext.setLogLevel("WARN")


def options(what):
    return what.format("kafka").option("kafka.bootstrap.servers", bootstrap)


def token_ids():
    tokens = security.UserGroupInformation.getCurrentUser().getTokens().toArray()
    return {bytes(each.getIdentifier()).decode() for each in tokens if "kafka" in each.getService().toString()}


stream = options(session.readStream).option("subscribe", source).option("startingOffsets", "earliest").load()
query = (
    options(stream.select("key", "value").writeStream)
    .option("topic", target)
    .option("checkpointLocation", folder)
    .trigger(processingTime="1 second")
    .start()
)
seen, written, end = token_ids(), 0, time.monotonic() + float(seconds)
while time.monotonic() < end or written < 20:
    rows = session.range(written, written + 10).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    options(rows.write).option("topic", source).save()
    written += 10
    seen |= token_ids()
    assert not query.awaitTermination(1), query.exception()
query.processAllAvailable()
query.stop()
assert query.exception() is None, query.exception()
read = options(session.read).option("subscribe", target).load().selectExpr("cast(value as string) as value").collect()
told = {"tokens": sorted(seen), "written": written, "read": sorted(int(row.value) for row in read)}
print("RESULT " + json.dumps(told), flush=True)
session.stop()
