"""Families of invariants, one file each; names in their texts are fields of the JSON document."""
