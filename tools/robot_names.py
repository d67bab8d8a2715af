#!/usr/bin/python3
"""Makes verdict/client/robot_names.txt of the list of crawlers that Martin Monperrus and others keep (MIT):

    npm pack crawler-user-agents && tar xzf crawler-user-agents-*.tgz
    tools/robot_names.py package/crawler-user-agents.json > verdict/client/robot_names.txt

The list is regular expressions, nearly all of them plain names; those are what is taken, in lower case. Names that are also
in what people's browsers send are left out: BROWSERS says which.
"""

import json
import re
import sys

# Browsers, apps in which people read pages, parts of phones' build numbers, and what is told apart as headless.
BROWSERS = {
    "ap3a.240617.008", "code/1.", "fluid", "gsa/", "headlesschrome", "metaiab facebook", "phantomjs", "silk/", "sogou", "sonic", "trae/", "viber",
}

HEAD = """# Names of programs that declare themselves, in lower case: facts from the list crawler-user-agents,
# Copyright (c) 2016 Martin Monperrus and contributors, MIT licence, https://github.com/monperrus/crawler-user-agents
# Made by tools/robot_names.py; do not edit.
"""


def names(pattern):
    """The plain names that a pattern stands for; nothing if it stands for more than that."""
    p = re.sub(r"\\([/.\-+ !'])", r"\1", pattern)
    p = re.sub(r"^\^|\(\^\| \)|\(\[\^-\]\|\$\)$|\$$", "", p)
    p = re.sub(r"\[(.)(.)\]", lambda m: m[1] if m[1].lower() == m[2].lower() else m[0], p)
    out = []
    for part in p.split("|") if "(" not in p else [p]:
        m = re.fullmatch(r"([^()|]*)\(([^()]*\|[^()]*)\)([^()]*)", part)
        out += [m[1] + x + m[3] for x in m[2].split("|")] if m else [part]
    return [n.strip().lower() for n in out if not re.search(r"[\\\[\]()*?^$|{}]", n) and len(n.strip()) > 1]


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        found = {n for entry in json.load(f) for n in names(entry["pattern"])}
    print(HEAD + "\n".join(sorted(n for n in found - BROWSERS if n.isascii())))


main()
