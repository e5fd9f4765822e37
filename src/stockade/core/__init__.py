"""Plain records, units and errors that every other room uses."""
