"""Certify published samplers in your own copies of their repositories, and write the gallery.

python -m examples.gallery                        # only writes docs/gallery.md, from the record
python -m examples.gallery --copies FOLDER        # certifies each subject that FOLDER has a copy of
python -m examples.gallery --copies FOLDER --only eagle sequoia

FOLDER has the repositories as owner/name, owner+name or name. Nothing is fetched.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from examples.gallery import chains, trees  # noqa: F401  they fill the list of subjects
from examples.gallery.page import page
from examples.gallery.running import RECORD, Row, certify_all, load_rows, save_rows
from examples.gallery.subjects import SUBJECTS
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole

PAGE = Path(__file__).parents[2] / "docs" / "gallery.md"


def main(given: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.gallery", description="Write the gallery.")
    parser.add_argument("--copies", type=Path, help="folder with copies of the repositories; without it, only write")
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, metavar="SUBJECT", help="certify these subjects only")
    parser.add_argument("--missing", action="store_true", help="certify the subjects that the record lacks")
    parser.add_argument("--record", type=Path, default=RECORD, help="the record of the results")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args(given)
    try:
        rows = load_rows(options.record)
    except InputError as error:
        parser.error(str(error))
    if options.copies:
        torch.set_num_threads(1)
        chosen = [SUBJECTS[name] for name in options.only or SUBJECTS if not (options.missing and name in rows)]
        for subject, found in certify_all(options.copies, chosen):
            if isinstance(found, Row):
                rows[subject.name] = found
                save_rows(options.record, rows.values())
                print(f"{subject.name}: {found.verdict} {found.tv} {found.failure}", flush=True)
            else:
                print(f"{subject.name}: skipped, {found}", flush=True)
    write_whole(options.out, page(rows))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
