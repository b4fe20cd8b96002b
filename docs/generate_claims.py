"""Write docs/claims.md: every claim of the papers with the result of its check.

python docs/generate_claims.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from proofs_check import CLAIMS
from proofs_check.checked import check_claims
from proofs_check.claims import in_order
from proofs_check.markdown import claims_markdown
from spectheory.core.files import write_whole

PAGE = Path(__file__).parent / "claims.md"

if __name__ == "__main__":
    found = list(check_claims(in_order(CLAIMS)))
    if failed := [f"{one.claim.id}: {one.failure}" for one in found if one.finding is None]:
        sys.exit("\n".join(["nothing was written, because these checks failed:", *failed]))
    write_whole(PAGE, claims_markdown(found))
    print(f"wrote {PAGE}")
