"""The filters of a list, as the functions ``matches`` of ``sql/functions`` take them."""

from typing import NamedTuple

from service.context import db
from service.database.statements import to_json
from service.values import Values
from service.web.errors import invalid_field


class Bounds(NamedTuple):
    in_order: bool


def require_order(field: str, message: str, lower: str | None, upper: str | None) -> None:
    """Raise 400 for the field of the lower bound, if no moment lies between the two bounds."""
    if lower and upper:
        bounds = db.row(Bounds, "filters/in_order", lower=lower, upper=upper)
        if not bounds.in_order:
            raise invalid_field(field, message)


def filters_of(query: Values) -> str:
    """Return the parameters of a query as JSON; absent ones are left out, and lists are text."""
    given = {name: value for name, value in query.items() if value}
    return to_json({k: ",".join(v) if isinstance(v, list) else v for k, v in given.items()})
