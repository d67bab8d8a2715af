#!/usr/bin/python3
"""Trains a model for Antirobot on labelled factors, with Debian's python3-xgboost (apt-get install python3-xgboost).

    tools/train.py --data labelled.csv --out model.json

The data is CSV as `antirobot events export` and `antirobot replay --factors` write it:
label (1 robot, 0 human, empty: left out), kind and subject (rows of one subject are always on one side of a split),
source, at and score are no factors, every other column is one; an empty field is unknown.

Each subject counts the same, however many rows it has, and of many rows a sample is enough. The figures are of subjects that
the model has not seen: the data is split by subject into folds with robots and people in each, and each is scored by a model
that was trained on the others, with as many trees as did best on all folds but this one. A subject has the mean of its rows'
scores in log-odds, the second of which counts twice, the third three times and so on, as in `antirobot formula eval`: the later a
row, the more is known. The model that is written is trained on everything, with as many trees as that was on average. The same
data and seed give the same model.

What is counted of a User-Agent, a shape of header fields or a network says who somebody is, and is not used without
--identity: a model that knows it fails as soon as a robot changes it. What the gateway's own answers leave behind (bans,
captchas, how those are judged who behave alike) is not used without --answers: it would learn the gateway's opinion.
"""

import argparse
import csv
import fnmatch
import math
import os
import random
import sys
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread trains, see nthread below; others would only wait for it, at full speed
try:
    import numpy as np
    import xgboost as xgb
except ModuleNotFoundError:  # said after the data was looked at
    np = xgb = None

IDENTITY = ("agent_*", "shape_*", "network_*", "version_age")
ANSWERS = ("alike_rank", "bans", "*_bans*", "captcha_*", "*_solved*", "*_shown", "*_failed", "stopped_share", "pages_before_*")
LEAST = 3  # subjects of a class, below which nothing can be learnt or measured
LEAST_SHARE = 0.1  # of the weight that the smaller class gets
NOT_FACTORS = {"label", "source", "kind", "subject", "at", "score"}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", action="append", required=True, metavar="FILE", help="labelled factors in CSV; may stand several times")
    p.add_argument("--out", metavar="FILE", help="write the model to FILE, which should end in .json")
    p.add_argument("--scores", metavar="FILE", help="write the score of each row by the model that has not seen its subject")
    p.add_argument("--exclude", action="append", default=[], metavar="PATTERN", help="leave these factors out, e.g. 'agent_*'")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="use only these factors")
    p.add_argument("--identity", action="store_true", help="also use " + ", ".join(IDENTITY))
    p.add_argument("--answers", action="store_true", help="also use " + ", ".join(ANSWERS))
    p.add_argument("--source", action="append", default=[], metavar="SOURCE", help="use only labels from this source")
    p.add_argument("--habit", action="append", default=[], metavar="FACTOR=VALUE,…", help="let some people have these values: what they may switch off")
    p.add_argument("--habit-share", type=float, default=0.1, help="share of the people that have each habit (default 0.1)")
    p.add_argument("--folds", type=int, default=10, help="at least 3 (default 10)")
    p.add_argument("--trees", type=int, default=400, help="at most; fewer if more don't help (default 400)")
    p.add_argument("--depth", type=int, default=4, help="of a tree (default 4)")
    p.add_argument("--eta", type=float, default=0.05, help="how much of what a tree says is taken (default 0.05)")
    p.add_argument("--min-weight", type=float, default=0.05, help="least weight of a leaf: a subject of which nothing is known yet has a quarter (default 0.05)")
    p.add_argument("--shrink", type=float, default=0.2, help="weight that is added to a leaf's, and draws it to nothing (default 0.2)")
    p.add_argument("--subsample", type=float, default=0.7, help="share of the rows for each tree (default 0.7)")
    p.add_argument("--per-tree", type=int, default=25, metavar="FACTORS", help="how many factors, by chance, a tree is made of (default 25)")
    p.add_argument("--rows", type=int, default=40, help="at most so many rows of a subject, by chance (default 40)")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def refuse(files):
    """Ends the program if a file is no table of labelled factors."""
    for file in files:
        with open(file, newline="", encoding="utf-8-sig") as f:
            table = csv.DictReader(f)
            if "label" not in (table.fieldnames or ()):
                sys.exit(f"{file}: there is no column label")
            for line, record in enumerate(table, 2):
                if record["label"] not in ("0", "1", ""):
                    sys.exit(f"{file}: line {line}: label: {record['label']!r} is neither 1 (robot) nor 0 (human) nor empty; a file of labels in words is joined to factors by --labels of antirobot events export or replay")


def number(text, where):
    """Returns the value of a factor, or ends the program."""
    try:
        return float(text)
    except ValueError:
        sys.exit(f"{where}: {text!r} is no number")


def read(args):
    """Returns names, factors, labels, subjects and turns (which of its subject's rows it is, from 1) of all files; a factor that a
    file lacks is unknown there."""
    names, rows, labels, subjects, sources, turns = [], [], [], [], [], []
    chance, seen = random.Random(args.seed), set()
    for file in args.data:
        with open(file, newline="", encoding="utf-8-sig") as f:
            table = csv.reader(f)
            head = next(table)
            at = {name: i for i, name in enumerate(head)}
            here = [n for n in head if n not in NOT_FACTORS]
            names += [n for n in here if n not in names]
            where = [(names.index(n), at[n]) for n in here]
            kept = {}  # by subject: how many rows it has had, and which of rows are its
            for record in table:
                source = record[at["source"]] if "source" in at else ""
                if record[at["label"]] != "":
                    seen.add(source)
                if record[at["label"]] == "" or args.source and source not in args.source:
                    continue
                who = [record[at[c]] if c in at else "" for c in ("kind", "subject")]
                subject = ":".join(who) if who[1] else f"{file}:{table.line_num}"
                had, mine = kept.setdefault(subject, (0, []))
                kept[subject] = (had + 1, mine)
                if len(mine) < args.rows:
                    mine.append(len(rows))
                    for column in (rows, labels, sources, subjects, turns):
                        column.append(None)
                    place = mine[-1]
                else:  # a reservoir: each row of a subject has the same chance
                    place = chance.randrange(had + 1)
                    if place >= args.rows:
                        continue
                    place = mine[place]
                row = np.full(len(names), np.nan, np.float32)
                for to, column in where:
                    if record[column] != "":
                        row[to] = number(record[column], f"{file}: line {table.line_num}: {head[column]}")
                rows[place], labels[place], sources[place], subjects[place], turns[place] = row, int(record[at["label"]]), source, subject, had + 1
    if absent := sorted(set(args.source) - seen):
        sys.exit(f"no row with a label has the source {', '.join(absent)}; there are: {', '.join(sorted(seen - {''}))}")
    x = np.full((len(rows), len(names)), np.nan, np.float32)
    for i, row in enumerate(rows):
        x[i, : len(row)] = row
    match = lambda n, patterns: any(fnmatch.fnmatchcase(n, p) for p in patterns)
    asked = lambda n: match(n, args.only)
    left = list(args.exclude) + [p for p in (() if args.identity else IDENTITY) + (() if args.answers else ANSWERS)]
    keep = [i for i, n in enumerate(names) if (not match(n, left) or asked(n) and not match(n, args.exclude)) and (not args.only or asked(n))]
    if not keep:
        sys.exit("no factor is left to learn from: look at --only, --exclude, --identity and --answers")
    client = np.array([client_of(names, row) for row in x])
    return [names[i] for i in keep], x[:, keep], np.array(labels), np.array(subjects), np.array(sources), np.array(turns), client


CLIENTS = (
    ("agent_missing", "no User-Agent"), ("agent_crawler", "crawler"), ("agent_robot", "declared robot"),
    ("agent_headless", "headless browser"), ("agent_library", "library"), ("agent_app", "app"),
    ("agent_mobile", "mobile browser"), ("agent_browser", "browser"), ("agent_other", "something else"),
)


def client_of(names, row):
    """What kind of client a row is of, by what it claims."""
    return next((kind for factor, kind in CLIENTS if factor in names and row[names.index(factor)] == 1), "unknown")


def take_up(args, names, x, robot, subjects):
    """Gives habits to people by chance, each subject as a whole; what is not known of them stays unknown."""
    for n, habit in enumerate(args.habit):
        has = [zlib.crc32(f"{args.seed} habit {n} {s}".encode()) < args.habit_share * 2**32 for s in subjects]
        for pair in habit.split(","):
            name, _, value = pair.partition("=")
            if name not in names:
                sys.exit(f"--habit: no factor {name} is used")
            column = x[:, names.index(name)]
            column[np.array(has) & ~robot & ~np.isnan(column)] = float(value)


def auc(score, robot):
    """The share of pairs in which the robot scores higher; ties count half."""
    values, which, count = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[which]
    n, m = robot.sum(), (~robot).sum()
    return (ranks[robot].sum() - n * (n + 1) / 2) / (n * m) if n and m else float("nan")


def precision(score, robot):
    """The average precision: the mean, over the robots, of the precision at their score; equal scores are one step."""
    if not robot.any():
        return float("nan")
    values, which = np.unique(-score, return_inverse=True)
    robots = np.cumsum(np.bincount(which, robot, len(values)))
    every = np.cumsum(np.bincount(which, minlength=len(values)))
    return float((np.diff(robots, prepend=0) * robots / every).sum() / robot.sum())


def by_subject(score, robot, subjects, turns):
    """The score of a subject is the mean of its rows' in log-odds, each of which counts as often as its turn says."""
    _, first, which = np.unique(subjects, return_index=True, return_inverse=True)
    sure = np.clip(score, 1e-7, 1 - 1e-7)
    mean = np.bincount(which, turns * np.log(sure / (1 - sure))) / np.bincount(which, turns)
    return 1 / (1 + np.exp(-mean)), np.bincount(which, robot) > 0, first


def by_chance(robot, low):
    """Whether the scores tell robots from people no better than chance: of few subjects even a perfect order may be luck."""
    n, m = int(robot.sum()), int((~robot).sum())
    orders = math.lgamma(n + m + 1) - math.lgamma(n + 1) - math.lgamma(m + 1)
    return not low > 0.5 or orders < math.log(1 / 0.025)


def resampled(figure, score, robot):
    """The 95 % interval of a figure, by drawing subjects again; each class for itself, so that a tiny one is never away."""
    r = np.random.RandomState(1)
    at = [np.flatnonzero(robot), np.flatnonzero(~robot)]
    drawn = []
    for _ in range(500 if len(score) < 20000 else 50):
        i = np.concatenate([r.choice(a, len(a)) for a in at])
        drawn.append(figure(score[i], robot[i]))
    return np.quantile(drawn, 0.025), np.quantile(drawn, 0.975)


def figures(score, robot, indent="  "):
    """Prints what scores of subjects are worth; returns the threshold that spares 99 % of the people, None if there is none."""
    low, high = resampled(auc, score, robot)
    print(f"{indent}ROC AUC {auc(score, robot):.4f} (95 % by bootstrap: {low:.4f} to {high:.4f}): {robot.sum()} robots, {(~robot).sum()} people")
    around = resampled(precision, score, robot)
    print(f"{indent}average precision {precision(score, robot):.4f} (95 %: {around[0]:.4f} to {around[1]:.4f}; by chance {robot.mean():.4f})")
    print(f"{indent}calibration: scores from, their mean, how many, robots among them")
    for k in range(10):
        here = (score >= k / 10) & ((score < (k + 1) / 10) | (k == 9))
        if here.any():
            print(f"{indent}  {k / 10:.1f}  {score[here].mean():.3f}  {here.sum():6d}  {robot[here].mean():6.1%}")
    if by_chance(robot, low):
        print(f"{indent}This is no better than chance: no threshold is suggested. More labels, or other factors, are needed.")
        return None
    people = np.sort(score[~robot])[::-1]
    suggested = None
    for wanted in (0.05, 0.01, 0.001):
        threshold = people[int(wanted * len(people))] if len(people) else 1
        recall, rate = (score[robot] > threshold).mean(), (people > threshold).mean()
        print(f"{indent}at most {wanted:.1%} of the people above: threshold {threshold:.4f}, recall {recall:.1%} ({rate:.2%} of the people)")
        suggested = threshold if wanted == 0.01 else suggested
    return suggested


def effect(score, robot, client, threshold):
    """Prints what the threshold does to each kind of client."""
    print(f"\nwith the threshold {threshold:.4f}:\n  {'kind of client':18} {'people':>7} {'above':>7} {'robots':>7} {'above':>7}")
    for kind in sorted(set(client), key=lambda k: -(client == k).sum()):
        here, above = client == kind, score > threshold
        print(f"  {kind:18} {(here & ~robot).sum():7d} {(here & ~robot & above).sum():7d} {(here & robot).sum():7d} {(here & robot & above).sum():7d}")


def split(subjects, robot, folds, seed):
    """Assigns each subject to a fold, by chance, with as many robots and people in each as there can be."""
    fold, names = np.zeros(len(subjects), int), {}
    for s, r in zip(subjects, robot):
        names[s] = names.get(s, False) or bool(r)
    place = {}
    for kind in (True, False):
        mine = sorted((s for s, r in names.items() if r == kind), key=lambda s: (zlib.crc32(f"{seed} {s}".encode()), s))
        place.update({s: i % folds for i, s in enumerate(mine)})
    return np.array([place[s] for s in subjects])


def progress(done, folds):
    """Says how far the training is, where somebody watches."""
    if sys.stderr.isatty():
        print(f"\r{done} of {folds} folds", end="\n" if done == folds else "", file=sys.stderr, flush=True)


def main():
    args = arguments()
    try:
        refuse(args.data)
    except OSError as e:
        sys.exit(f"{e.filename}: {e.strerror}; antirobot events export writes such a file")
    if xgb is None:
        sys.exit("numpy and xgboost are needed: apt-get install python3-xgboost")
    names, x, y, subjects, sources, turns, client = read(args)
    robot = y == 1
    if not robot.any() or robot.all():
        sys.exit(f"{len(y)} rows with labels, {robot.sum()} of robots: both are needed")
    take_up(args, names, x, robot, subjects)
    unique, which, count = np.unique(subjects, return_inverse=True, return_counts=True)
    robots = len(np.unique(subjects[robot]))
    few = min(robots, len(unique) - robots)
    if few < LEAST:
        sys.exit(f"robots and people are {robots} and {len(unique) - robots}: at least {LEAST} of each are needed to learn from some and to measure with others")
    folds = max(3, min(args.folds, few))
    if folds < args.folds:
        print(f"only {few} subjects of one class: {folds} folds")
    weight = (1 / count)[which]
    share = float((weight * robot).sum() / weight.sum())
    if min(share, 1 - share) < LEAST_SHARE:  # else a tiny class is not worth a branch
        tiny = robot if share < 0.5 else ~robot
        weight[tiny] *= LEAST_SHARE / (1 - LEAST_SHARE) * weight[~tiny].sum() / weight[tiny].sum()
        print(f"the smaller class has {min(share, 1 - share):.2%} of the subjects: it is trained with {LEAST_SHARE:.0%} of the weight, and scores are that much higher or lower")
    share = float((weight * robot).sum() / weight.sum())
    print(f"{len(y)} rows of {len(unique)} subjects, {len(names)} factors, {share:.1%} robots")
    params = dict(
        objective="binary:logistic", eval_metric="logloss", max_depth=args.depth, eta=args.eta, seed=args.seed, nthread=1, tree_method="hist",
        min_child_weight=args.min_weight, subsample=args.subsample, colsample_bytree=min(1, args.per_tree / len(names)), base_score=min(max(share, 0.01), 0.99),
    )
    params["lambda"] = args.shrink
    data = lambda rows: xgb.DMatrix(x[rows], y[rows], weight=weight[rows], feature_names=names)

    fold = split(subjects, robot, folds, args.seed)
    models, losses = [], []
    for k in range(folds):
        here, course = fold == k, {}
        models.append(xgb.train(params, data(~here), args.trees, evals=[(data(here), "unseen")], evals_result=course, verbose_eval=False))
        losses.append(course["unseen"]["logloss"])
        progress(k + 1, folds)
    score, trees = np.zeros(len(y)), []
    for k in range(folds):
        here = fold == k
        trees.append(1 + int(np.argmin(np.delete(losses, k, 0).mean(0))))
        score[here] = models[k].predict(data(here), iteration_range=(0, trees[k]))
        mean, label, _ = by_subject(score[here], robot[here], subjects[here], turns[here])
        print(f"fold {k + 1} of {folds}: {trees[-1]} trees, ROC AUC by subject {auc(mean, label):.4f}")
    print("\nsubjects that the model has not seen, all folds together:")
    mean, label, first = by_subject(score, robot, subjects, turns)
    threshold = figures(mean, label)
    if threshold is not None:
        effect(mean, label, client[first], threshold)
    for s in np.unique(sources) if len(np.unique(sources)) < 40 else []:
        mine = sources == s
        mean, _, _ = by_subject(score[mine], robot[mine], subjects[mine], turns[mine])
        print(f"  {s or 'no source'}: {len(mean)} subjects, scores: median {np.median(mean):.3f}, 10 % above {np.quantile(mean, 0.9):.3f}")

    if args.scores:
        with open(args.scores, "w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["subject", "label", "score"])
            out.writerows([s.lstrip(":"), l, f"{v:.6f}"] for s, l, v in zip(subjects, y, score))  # as the data has them, where it names no kinds
    if args.out:
        best = max(1, int(round(np.mean(trees))))
        model = xgb.train(params, data(np.ones(len(y), bool)), best)
        model.save_model(args.out)
        gains = sorted(model.get_score(importance_type="total_gain").items(), key=lambda f: -f[1])
        print(f"\n{args.out}: {best} trees, {len(gains)} factors used; the strongest by gain:")
        for name, gain in gains[:20]:
            print(f"  {gain / gains[0][1]:6.1%}  {name}")
        print(f"\nMeasure it with other data:  antirobot formula eval --model {args.out} --data OTHER.csv")


main()
