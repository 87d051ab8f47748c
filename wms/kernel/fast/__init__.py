"""Fast answers to machines (docs/architecture.md, Answering machines fast)."""
