"""Output for people and for programs: tables, colours, a progress bar, and a view of the whole screen."""
