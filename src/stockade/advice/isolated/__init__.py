"""The checker that reads untrusted source. It runs in a sandbox, on Python 3.8 or newer."""
