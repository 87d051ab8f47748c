"""The users' command line over the REST interface; it needs only the standard library."""
