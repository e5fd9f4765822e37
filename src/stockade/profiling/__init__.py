"""What runs cost on this machine: ``speed`` beside each other, ``steps`` one of them step by step, ``chart`` drawn."""
