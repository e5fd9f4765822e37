"""Living sandboxes over HTTP: the front relays each request to the service worker, which keeps the sandboxes."""
