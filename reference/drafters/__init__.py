"""Everything that drafts: settings (`Drafter`) that begin texts (`Drafting`)."""

from reference.drafters.drafter import Drafter, Drafting
from reference.drafters.drawn import Drawn
from reference.drafters.dynamic import Searched
from reference.drafters.static import StaticTree

__all__ = ["Drafter", "Drafting", "Drawn", "Searched", "StaticTree"]
