"""Gives each window its risk by the model, whole columns at a time, as it comes."""

from pathlib import Path

import joblib
import numpy
import pyarrow as pa
from pyspark import pipelines as dp
from pyspark.sql.functions import arrow_udf
from pyspark.sql.types import DoubleType

from moldau.spark.pipelines import pipeline, source

MODEL = str(Path(__file__).parent / "out" / "model.joblib")

pipeline("scores", bootstrap_servers="127.0.0.1:9092")
source(
    "features",
    topic="pump-features",
    format="json",
    schema="pump string, at timestamp, mean double, spread double, middle double, degrees double",
)

dp.create_sink("risks", "kafka", {"topic": "pump-risks", "key": "pump"})


@dp.append_flow(target="risks")
def scored():
    model = joblib.load(MODEL)  # Spark sends it to the tasks with the function; the next start uses a newer one

    @arrow_udf(DoubleType())
    def risk(mean: pa.Array, spread: pa.Array, middle: pa.Array, degrees: pa.Array) -> pa.Array:
        columns = numpy.column_stack([mean, spread, middle, degrees])
        return pa.array(numpy.round(model.predict_proba(columns)[:, 1], 3))

    windows = spark.readStream.table("features")  # noqa: F821 - Spark's runner has it there too
    return windows.select("pump", "at", risk("mean", "spread", "middle", "degrees").alias("risk"))
