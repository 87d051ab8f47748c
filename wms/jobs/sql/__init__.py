"""SQL for jobs that the ORM cannot express, or executes ten times as slowly for ten thousand jobs."""
