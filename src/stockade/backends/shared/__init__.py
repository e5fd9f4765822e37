"""What several backends have in common."""
