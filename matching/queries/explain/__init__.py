"""Explain: why a job waits, or what it does instead, and which conditions of the match refuse it."""
