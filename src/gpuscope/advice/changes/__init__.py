"""One file a change; each registers itself. See `gpuscope.advice.change.Change`."""
