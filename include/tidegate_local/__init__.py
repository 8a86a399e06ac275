"""The embedded stack for one machine: real servers from jars and wheels, and sample data."""
