"""Judge the serving simulator: python -m benchmarks.serving_validation --out docs/serving.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.serving_validation import fixed_batch, queueing
from benchmarks.serving_validation.curves import curves, judged, median_error
from benchmarks.serving_validation.page import AIM, document
from spectheory.core.files import write_whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 if a check fails or the curves are off by more than the aim."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving_validation", description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the page; by default it is printed")
    out = parser.parse_args(arguments).out
    checks, found = [*queueing.checks(), *fixed_batch.checks()], judged(curves())
    page = document(checks, found)
    if out is None:
        print(page)
    else:
        write_whole(out, page)
    failed = [check for check in checks if not check.good]
    for check in failed:
        print(f"failed: {check.group}, {check.case}: {check.simulated:g}, not {check.expected:g}", file=sys.stderr)
    return int(bool(failed) or median_error(found) > AIM)


if __name__ == "__main__":
    sys.exit(main())
