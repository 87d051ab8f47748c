"""Files: storage elements, checksums, and the spool of output that no server took."""
