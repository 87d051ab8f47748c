"""The pilot: its options, main loop, offers, and the processes of its jobs."""
