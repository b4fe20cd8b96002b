"""Published verifiers, certified in the reader's own copies of their repositories."""
