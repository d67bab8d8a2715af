"""Make an access log of how people move through an encyclopaedia, and robots to whom all links are alike.

    python3 tools/wikispeedia.py links.tsv paths_unfinished.tsv --robots 0.2 > wiki.log 2> known.csv
    antirobot replay wiki.log --identity column:10 --labels known.csv --factors factors.csv

The files are those of Wikispeedia, a game whose players go from one article to another by links alone (West and Leskovec, "Human Wayfinding in
Information Networks", WWW 2012; https://snap.stanford.edu/data/wikispeedia.html). A player is an address, as hashed in the data. For the given share of players there is
a robot that begins where the player began each time, and follows as many links, each chosen among all of its page. The years of the game are made three weeks.
Nothing but the links is real: no parts of pages, one browser, a page every seven seconds at the most. The labels go to standard error.
"""

import argparse
import hashlib
import random
import sys
import time

DAYS = 20
BEGIN = 1_760_000_000
LEAST = 7  # seconds on a page
BROWSER = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"


def rows(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                yield line.rstrip("\n").split("\t")


def steps(path):
    """The links that were followed: pairs of pages. "<" is the button to go back."""
    trail, found = [], []
    for page in path.split(";"):
        if page != "<":
            if trail:
                found.append((trail[-1], page))
            trail.append(page)
        elif len(trail) > 1:
            trail.pop()
    return found


def walk(links, page, n, rng):
    """As many links, whichever."""
    found = []
    for _ in range(n):
        if not links.get(page):
            break
        following = rng.choice(links[page])
        found.append((page, following))
        page = following
    return found


def address(visitor):
    h = hashlib.md5(visitor.encode()).digest()
    return f"{31 + h[0] % 140}.{h[1]}.{h[2]}.{1 + h[3] % 254}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("links")
    parser.add_argument("paths")
    parser.add_argument("--robots", type=float, default=0.2, help="robots for each player (0.2)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    links, games = {}, {}
    for source, target in rows(args.links):
        links.setdefault(source, []).append(target)
    for player, at, _, path, *_ in rows(args.paths):
        if found := steps(path):
            games.setdefault(player, []).append((int(at), found))
    visits = [(at, player, found) for player, all_ in games.items() for at, found in all_]
    for player, all_ in games.items():
        if rng.random() < args.robots:
            visits += [(at, "robot-" + player, walk(links, found[0][0], len(found), rng)) for at, found in all_]
    first, last = min(v[0] for v in visits), max(v[0] for v in visits)
    lines, at = [], {}
    for began, visitor, found in sorted(visits):
        start = BEGIN + (began - first) / max(last - first, 1) * DAYS * 86400
        for source, target in found:
            now = at[visitor] = max(start, at.get(visitor, 0) + LEAST)
            lines.append((now, visitor, source, target))
    print("visitor,label", file=sys.stderr)
    for visitor in sorted(at):
        print(f"{visitor},{'robot' if visitor.startswith('robot-') else 'human'}", file=sys.stderr)
    for now, visitor, source, target in sorted(lines):
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now))
        print(f'{address(visitor)} - - [{stamp}] "GET /wiki/{target} HTTP/1.1" 200 20000 "https://wiki.example/wiki/{source}" "{BROWSER}" {visitor}')


if __name__ == "__main__":
    main()
