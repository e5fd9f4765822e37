"""The warden: one small single-threaded process that starts, watches, kills and reaps runs."""
