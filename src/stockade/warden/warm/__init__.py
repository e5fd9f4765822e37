"""Warm runs: `zygote`, `worker` and `guest` run in processes of these names, `pool` and `worker_pool` in the warden."""
