"""Values that come in: strict JSON, the fields and schemas that check them."""
