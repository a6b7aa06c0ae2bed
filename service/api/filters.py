"""The filters of a list, as the functions ``matches`` of ``sql/functions`` take them."""

from service.database.statements import to_json
from service.values import Values


def filters_of(query: Values) -> str:
    """Return the parameters of a query as JSON; absent ones are left out, and lists are text."""
    given = {name: value for name, value in query.items() if value}
    return to_json({k: ",".join(v) if isinstance(v, list) else v for k, v in given.items()})
