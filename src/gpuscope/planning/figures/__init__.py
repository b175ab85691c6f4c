"""What a plan is chosen by, or kept within: one small file each, registering itself."""
