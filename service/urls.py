"""The one kind of variable that paths have."""

from werkzeug.routing import BaseConverter

from service.fields import as_id


class IdConverter(BaseConverter):
    """``<id:id>``: a malformed id reaches the view as one that nobody has, and so is answered like it."""

    def to_python(self, value):
        return as_id(value)
