"""Dynamic delayed trees; tau is the accepted tokens, as in the paper, one fewer than elsewhere in spectheory."""
