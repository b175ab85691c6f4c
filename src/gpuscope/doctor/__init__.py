"""Is this machine all right? One file a check; each reads the machine through one interface."""
