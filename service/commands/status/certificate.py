"""The section of ``status`` about the certificate that nginx on this host shows to clients."""

import re
import socket
import ssl
import time
from contextlib import suppress
from pathlib import Path

from service.commands.status.section import Section

# The script `install` writes this file on a host with nginx.
SITE = Path("/etc/nginx/task-service/server.conf")
NGINX = "127.0.0.1", 443
# Seconds in which nginx has to answer.
TIMEOUT = 2
# The alert CertificateExpires has the same threshold.
SOON = 14 * 86400
# OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED.
HAS_EXPIRED = 10
RENEW = "renew it, for example with certbot renew, and reload nginx"


def read_certificate() -> Section:
    section = Section({})
    with suppress(OSError, UnicodeDecodeError):
        if found := re.search(r"(?m)^server_name +([^ ;]+)", SITE.read_text(encoding="utf-8")):
            section = certificate_of(found[1])
    return section


def certificate_of(name: str) -> Section:
    """Say until when the certificate for this name is valid; raises OSError."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with connected(trusting, name) as connection:
        shown = connection.getpeercert(binary_form=True)
    # Python reads only a certificate that it has verified. So trust this one, whoever signed it,
    # and connect again.
    verifying = ssl.create_default_context(cadata=shown)
    verifying.check_hostname = False
    verifying.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        with connected(verifying, name) as connection:
            end = str((connection.getpeercert() or {})["notAfter"])
    except ssl.SSLCertVerificationError as error:
        section = Section({"certificate": None})
        if error.verify_code == HAS_EXPIRED:
            text = f"the certificate of {name} has expired, so clients refuse the service"
            section.problem(text, RENEW, "tolerable")
        return section
    section = Section({"certificate": end})
    section.line("certificate", f"of {name}, valid until {end}")
    if ssl.cert_time_to_seconds(end) - time.time() < SOON:
        section.problem(f"the certificate of {name} expires on {end}", RENEW, "warning")
    return section


def connected(context: ssl.SSLContext, name: str) -> ssl.SSLSocket:
    plain = socket.create_connection(NGINX, timeout=TIMEOUT)
    return context.wrap_socket(plain, server_hostname=name)
