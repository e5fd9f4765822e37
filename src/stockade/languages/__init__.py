"""Languages: how source text becomes a command. One file each, looked up in ``registry``."""
