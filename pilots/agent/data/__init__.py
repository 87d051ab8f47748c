"""Files: storage elements, safe paths, and the output spool."""
