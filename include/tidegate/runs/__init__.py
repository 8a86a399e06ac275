"""What the ingest and the egress runs share: the opened run, its steps, Variables, reports."""
