"""The physicist's command line over the REST interface; it needs nothing but the standard library."""
