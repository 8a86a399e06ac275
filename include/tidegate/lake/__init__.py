"""What a pipeline has in the lake: its ledger, its plans, its attempts and its data files."""
