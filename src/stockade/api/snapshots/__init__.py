"""Snapshots of living sandboxes: their files, taken and unpacked by an agent inside."""
