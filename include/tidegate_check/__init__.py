"""The independent checker of a lake. It imports nothing of Tidegate."""
