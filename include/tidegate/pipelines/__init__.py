"""Pipeline files: the YAML that users write, parsed into frozen specs."""
