"""The steps of a launch, by topic. Each step is a method ``do_NAME`` of a base class of ``Stage``."""
