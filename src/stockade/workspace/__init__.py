"""Folders of the host behind a run: scanned before it, compared and committed after it."""
