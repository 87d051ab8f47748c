"""A configuration of DIRAC as one of ours (ADR 81). Nothing in here reads or writes the database."""
