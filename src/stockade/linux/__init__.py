"""Kernel facilities, each in a file of its own.

They use the standard library only, and run inside the warden and before the guest starts.
"""
