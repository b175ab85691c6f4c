"""What the devices do now: sampled, judged in words, recorded, replayed, exported."""
