"""REST interface of the configuration file."""
