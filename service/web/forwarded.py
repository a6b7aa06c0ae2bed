"""The address of the client behind trusted proxies, from X-Forwarded-For."""

from flask import Flask

from service.context import current_request


def init_app(app: Flask) -> None:
    """Give requests the client address that the outermost of TRUSTED_PROXIES saw.

    Each proxy appends the address of its peer, so the service counts entries from the right. Only
    commas separate entries, even inside quotes. If quotes had a meaning here, a client could send
    an open quote and so hide the entry that the proxy appends.
    """
    proxies = app.config["SETTINGS"].trusted_proxies

    def set_address() -> None:
        """Replace the address of the peer by the entry of the header, unless that is empty."""
        request = current_request()
        entries = request.environ.get("HTTP_X_FORWARDED_FOR", "").split(",")
        if len(entries) >= proxies and (address := entries[-proxies].strip()):
            request.remote_addr = address

    if proxies:
        app.before_request(set_address)
