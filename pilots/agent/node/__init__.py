"""The node and its batch system: resources, limits, and checks whether jobs can run (PIL §2.1)."""
