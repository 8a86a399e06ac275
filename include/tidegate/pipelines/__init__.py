"""What a user writes: YAML files, read at the border into frozen specs."""
