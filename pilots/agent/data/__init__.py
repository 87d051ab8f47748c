"""Files: storage elements, checksums, safe paths, and the output spool."""
