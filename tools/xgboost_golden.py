#!/usr/bin/python3
"""Trains small XGBoost models and writes what XGBoost itself predicts of rows that are hard to get right.

    xgboost_golden.py DIRECTORY [SEED]

For each case there are NAME.json, the model, and NAME.rows.json: the rows (null is NaN), their margins, predictions and
contributions (approx_contribs). The rows stand at every threshold of the model, just below and just above it, are
integers, random, or partly or wholly unknown. verdict/formula/testdata/xgboost was made by seed 1; a test makes others.
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for so little, threads take longer to wait for each other than to work

import numpy as np
import xgboost as xgb

NAMES = ["pages_1m", "gap_mean", "depth", "share", "night", "age"]

CASES = {
    "gbtree": dict(objective="binary:logistic", max_depth=4, base_score=0.3),
    "stump": dict(objective="binary:logistic", max_depth=1),
    "dart": dict(objective="binary:logistic", booster="dart", max_depth=3, rate_drop=0.5, base_score=0.2),
    "dart_forest": dict(objective="binary:logistic", booster="dart", max_depth=3, rate_drop=0.4, normalize_type="forest"),
    "lossguide": dict(objective="binary:logistic", tree_method="hist", grow_policy="lossguide", max_leaves=20, max_depth=0),
    "parallel": dict(objective="binary:logistic", max_depth=3, num_parallel_tree=3, subsample=0.5, base_score=0.7),
    "pruned": dict(objective="binary:logistic", max_depth=6, gamma=3),
    "reglogistic": dict(objective="reg:logistic", max_depth=3, base_score=0.4),
    "squarederror": dict(objective="reg:squarederror", max_depth=3, base_score=0.25),
    "nothing": dict(objective="binary:logistic", max_depth=2, gamma=1e9, base_score=0.1),
}


def training(r, n=1500):
    x = np.stack(
        [
            r.poisson(6, n),
            r.exponential(3, n),
            r.randint(0, 9, n),
            r.rand(n),
            r.randint(0, 2, n),
            r.lognormal(4, 3, n),
        ],
        axis=1,
    ).astype(np.float32)
    z = 0.5 * (x[:, 0] - 6) - 0.4 * x[:, 1] + 2 * (x[:, 3] > 0.6) * (x[:, 2] > 3) + 0.2 * np.log(x[:, 5] + 1) - 1
    y = (r.rand(n) < 1 / (1 + np.exp(-z))).astype(np.float32)
    x[r.rand(*x.shape) < 0.08] = np.nan
    x[r.rand(n) < 0.3, 5] = np.nan
    return x, y


def thresholds(model):
    booster = model["learner"]["gradient_booster"]
    for tree in booster.get("gbtree", booster)["model"]["trees"]:
        for left, feature, value in zip(tree["left_children"], tree["split_indices"], tree["split_conditions"]):
            if left >= 0 and feature < len(NAMES):
                yield feature, np.float32(value)


def rows(r, x, model):
    out = [np.full(len(NAMES), np.nan, np.float32), np.zeros(len(NAMES), np.float32)]
    splits = sorted(set(thresholds(model)))
    r.shuffle(splits)
    for feature, t in splits[:60]:
        for value in (t, np.nextafter(t, np.float32(-np.inf)), np.nextafter(t, np.float32(np.inf)), np.nan):
            row = x[r.randint(len(x))].copy()
            row[feature] = value
            out.append(row)
    out += list(np.round(x[r.randint(len(x), size=40)]))
    out += list(x[r.randint(len(x), size=60)])
    out += list((r.standard_normal((40, len(NAMES))) * 10 ** r.uniform(-5, 8, (40, 1))).astype(np.float32))
    return np.array(out, np.float32)


def main():
    where = pathlib.Path(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    where.mkdir(parents=True, exist_ok=True)
    for name, params in CASES.items():
        r = np.random.RandomState(seed)
        x, y = training(r)
        params = dict(params, seed=seed, eta=0.3, nthread=1, verbosity=0)
        model = xgb.train(params, xgb.DMatrix(x, y, feature_names=NAMES), 6)
        file = where / (name + ".json")
        model.save_model(str(file))
        model = xgb.Booster(model_file=str(file))  # predict with what was saved, not with what was trained
        test = rows(r, x, json.loads(file.read_text()))
        d = xgb.DMatrix(test, feature_names=NAMES)
        golden = {
            "xgboost": xgb.__version__,
            "seed": seed,
            "names": NAMES,
            "rows": [[None if np.isnan(v) else float(v) for v in row] for row in test],
            "margin": [float(v) for v in model.predict(d, output_margin=True)],
            "score": [float(v) for v in model.predict(d)],
            "contributions": [[float(v) for v in row] for row in model.predict(d, pred_contribs=True, approx_contribs=True)],
        }
        (where / (name + ".rows.json")).write_text(json.dumps(golden, separators=(",", ":")) + "\n")


main()
