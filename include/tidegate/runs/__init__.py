"""Shared by ingest and egress runs: the opened run, its steps, Variables, reports."""
