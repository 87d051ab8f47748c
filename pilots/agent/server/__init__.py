"""The server as the pilot sees it: HTTP, retries, the protocol, the configuration of pilots, and leases."""
