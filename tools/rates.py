"""Summarise the factors of a labelled table, as `antirobot traffic --factors day.csv` writes it, for docs/factors.md.

    antirobot traffic --factors day.csv --length 12h
    python3 tools/rates.py day.csv > verdict/processor/testdata/rates.tsv
    go test ./verdict/processor -run TestFactorsDoc -update

Each subject counts once, with its last evaluation. For people and for robots: the share of subjects for which the factor
is known, and its 5th, 50th and 95th percentile. Rows of kinds that are held out are refused.
"""

import csv
import sys

FIXED = 5  # label, source, subject, at, score


def quantile(values, share):
    return values[min(int(share * len(values)), len(values) - 1)]


def main(path):
    last = {}
    with open(path, newline="") as f:
        rows = csv.reader(f)
        names = next(rows)[FIXED:]
        for row in rows:
            if row[1].startswith("held-out-"):
                sys.exit(f"{path}: contains {row[1]}, which nothing may be tuned on")
            if row[0] in ("0", "1"):
                last[(row[0], row[2])] = row[FIXED:]
    sides = [[row for (label, _), row in last.items() if label == side] for side in "01"]
    print(f"subjects\t{len(sides[0])}\t{len(sides[1])}")
    for i, name in enumerate(names):
        cells = [name]
        for side in sides:
            known = sorted(float(row[i]) for row in side if row[i])
            cells.append(f"{100 * len(known) / max(len(side), 1):.0f}")
            cells += [f"{quantile(known, s):.3g}" for s in (0.05, 0.5, 0.95)] if known else ["", "", ""]
        print("\t".join(cells))


if __name__ == "__main__":
    main(sys.argv[1])
