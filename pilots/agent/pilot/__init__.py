"""The pilot: its options, its main loop, the requests for jobs, and the processes that work on them."""
