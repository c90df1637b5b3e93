"""Environments side by side: what a batch is, wherever its environments live."""
