"""Programs for the gateways of sites; each is one file that needs only Python."""
