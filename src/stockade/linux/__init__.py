"""One kernel facility a file. Standard library only; runs inside the warden and before the guest starts."""
