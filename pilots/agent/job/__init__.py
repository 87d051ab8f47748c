"""One job on the node: preparation, stage-in, the payload with its user and namespaces, watchdog, stage-out, report."""
