"""Learns from the files which windows precede a failure within an hour: out/model.joblib."""

import json
from pathlib import Path

import joblib
import pandas
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FEATURES = ["mean", "spread", "middle", "degrees"]

windows = pandas.read_parquet("out/features").sort_values(["pump", "at"])
failures = {one["pump"]: one["at"] for one in map(json.loads, Path("out/failures.jsonl").read_text().splitlines())}
until_failure = pandas.to_datetime(windows["pump"].map(failures), utc=True) - windows["at"]
is_soon = until_failure < pandas.Timedelta(hours=1)

model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
found = cross_val_predict(
    model, windows[FEATURES].to_numpy(), is_soon, groups=windows["pump"], cv=GroupKFold(5), method="predict_proba"
)
joblib.dump(model.fit(windows[FEATURES].to_numpy(), is_soon), "out/model.joblib")
print(f"{len(windows)} windows, {is_soon.sum()} of them in the hour before a failure")
print(f"area under the curve, for pumps that the model has not seen: {roc_auc_score(is_soon, found[:, 1]):.3f}")
