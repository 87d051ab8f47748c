"""What every part of the agent uses: log, clock, processes, and calls of Linux."""
