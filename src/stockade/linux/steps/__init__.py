"""The steps of a launch, by theme: each is a method ``do_NAME`` of a class that ``Stage`` is made of."""
