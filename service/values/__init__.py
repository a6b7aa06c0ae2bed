"""Values that come in: strict JSON, the fields and schemas that check them."""

from typing import Any

# The members of a body or a query, or the variables of a path, by their names.
Values = dict[str, Any]
