"""Parts that all packages of the agent use: log, clock, processes, and system calls of Linux."""
