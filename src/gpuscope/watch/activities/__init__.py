"""The activity of devices, one file a vendor: a file registers itself with `@activity_vendor`."""
