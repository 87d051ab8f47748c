"""The node and its batch system: what they have and allow, and whether jobs can run here (PIL §2.1)."""
