"""What was counted and clocked, and how it compares with what was predicted."""
