"""Judge an answer isolated from its test: two sandboxes that exchange calls and replies."""
