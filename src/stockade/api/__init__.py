"""What people call: runners, streams, and the choice of a backend."""
