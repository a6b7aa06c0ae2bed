"""The address of the client behind trusted proxies, from X-Forwarded-For."""

from flask import Flask

from service.database.db import current_request


def init_app(app: Flask) -> None:
    """Let requests have the address that the outermost of TRUSTED_PROXIES has seen.

    Each proxy appends the address of its peer, so the entries count from the right. Only commas
    separate them: a client that sends an open quote must not hide the entry of the proxy.
    """
    proxies = app.config["SETTINGS"].trusted_proxies

    def set_address() -> None:
        """Replace the address of the peer, unless the header has no such entry or an empty one."""
        request = current_request()
        entries = request.environ.get("HTTP_X_FORWARDED_FOR", "").split(",")
        if len(entries) >= proxies and (address := entries[-proxies].strip()):
            request.remote_addr = address

    if proxies:
        app.before_request(set_address)
