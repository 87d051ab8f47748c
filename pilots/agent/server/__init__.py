"""The interface to the server: HTTP, retries, protocol, configuration of pilots, and leases."""
