"""Lines of Python by package, beside the budget; exits with 1 where a package is over it.

Lines are those of `git ls-files '*.py'`, with docstrings, blank lines and tests: `python benchmarks/size.py`.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

BUDGET = {
    "spectheory": 26_500,
    "simulate": 3_000,
    "reference": 9_500,
    "proofs_check": 7_800,
    "tests": 22_500,
    "benchmarks": 3_500,
    "notebooks, examples, docs": 2_200,
}
ALL = 75_000


def main() -> int:
    rooms = {folder: room for room in BUDGET for folder in room.split(", ")}
    listed = subprocess.run(["git", "ls-files", "*.py"], check=True, capture_output=True, text=True).stdout.split()
    lines: Counter[str] = Counter()
    for file in filter(Path.exists, map(Path, listed)):
        lines[rooms[file.parts[0]]] += file.read_bytes().count(b"\n")
    rows = [(room, lines[room], most) for room, most in BUDGET.items()] + [("all", lines.total(), ALL)]
    for room, now, most in rows:
        over = f" OVER by {now - most:,}" if now > most else ""
        print(f"{room:<28}{now:>8,} of {most:>6,}{over}")
    return any(now > most for _, now, most in rows)


if __name__ == "__main__":
    sys.exit(main())
