"""One run in the warden: its connection, output, input, counters, verdict data and files."""
