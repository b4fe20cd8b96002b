"""Code of users that is at fault, and what is made of it."""
