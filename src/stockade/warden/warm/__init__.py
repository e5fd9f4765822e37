"""Warm interpreters: ``zygote`` and ``keeper`` run in their processes, ``stable`` and ``slot`` in the warden."""
