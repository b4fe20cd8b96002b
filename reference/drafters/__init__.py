"""Everything that drafts: settings (`Drafter`) that begin texts (`Drafting`)."""

from reference.drafters.checked import Checked
from reference.drafters.datastore import Datastore, SuffixArray
from reference.drafters.drafter import Drafter, Drafting
from reference.drafters.drawn import Drawn
from reference.drafters.dynamic import Searched
from reference.drafters.goose import Goose
from reference.drafters.lookahead import Lookahead
from reference.drafters.lookup import PromptLookup
from reference.drafters.recycling import TokenRecycling
from reference.drafters.static import PlannedTree

__all__ = [
    "Checked",
    "Datastore",
    "Drafter",
    "Drafting",
    "Drawn",
    "Goose",
    "Lookahead",
    "PlannedTree",
    "PromptLookup",
    "Searched",
    "SuffixArray",
    "TokenRecycling",
]
