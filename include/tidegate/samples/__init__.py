"""Samples of records, as people read them, and what is proposed from them."""
