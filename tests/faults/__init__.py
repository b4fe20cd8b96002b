"""Faulty code and files of users, and how the package answers."""
