"""The parts of one run in the warden: connection, execution, output, input, counters, end and files."""
