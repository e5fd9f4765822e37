"""Watch the runs of a process: settings for all of them, and an audit log."""
