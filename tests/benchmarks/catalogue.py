"""The benchmarks by name."""

#: {name: what it measures}; the module of that name runs it.
MEASURES = {
    "match": "matches in process, each with its commit, one after another",
    "http": "POST /api/matches/ by many pilots at once, for a while",
    "contention": "the same on a single task queue",
}
