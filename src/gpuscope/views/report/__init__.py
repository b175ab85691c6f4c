"""What a report's page needs besides the documents of its runs: one file a part."""
