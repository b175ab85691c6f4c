"""One file a family: `cases()` names its programs, without making any of them."""
