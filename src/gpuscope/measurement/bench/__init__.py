"""`gpuscope bench`: what this machine really reaches, one file a bench, each registers itself."""
