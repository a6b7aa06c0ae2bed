"""Run nginx and HAProxy in front of the service, and PgBouncer in front of PostgreSQL."""

import os
import socket
import subprocess
from contextlib import contextmanager

from support.processes import free_port, wait_until
from support.project import read, replaced

from service.devkit.children import end_with_parent


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(command, port, **options):
    """Run a program that listens on this port; yield the port, and end the program afterwards."""
    command = [str(word) for word in command]
    # nginx overwrites the mark of the guard.
    process = subprocess.Popen(command, preexec_fn=end_with_parent, **options)
    try:
        wait_until(lambda: connects(port), process)
        yield port
    finally:
        process.terminate()
        process.wait(60)


def tls(folder, port):
    """Make a certificate in this folder, and return the text of server.conf for a loopback port."""
    new = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1")
    files = ("-keyout", folder / "service.key", "-out", folder / "service.crt")
    subprocess.run([*new, *files], check=True, capture_output=True)
    return (
        f"listen 127.0.0.1:{port} ssl; listen [::1]:{port} ssl;\n"
        f"ssl_certificate {folder}/service.crt; ssl_certificate_key {folder}/service.key;\n"
    )


def service_site(folder, hosts, server):
    """Return docs/deploy/nginx.conf with logs in this folder.

    Write the two files that it includes, whose contents are ``hosts`` and ``server``.
    """
    (folder / "task-service").mkdir()
    (folder / "task-service/hosts.conf").write_text(hosts)
    (folder / "task-service/server.conf").write_text(server)
    log = "/var/log/nginx/task-service"
    return replaced(
        read("docs/deploy/nginx.conf"),
        (f"{log}.log", f"{folder}/access.log"),
        (f"{log}-unanswered.log", f"{folder}/unanswered.log"),
    )


@contextmanager
def nginx(folder, site, port):
    (folder / "site.conf").write_text(site)
    # Only root can use Debian's default folders for temporary files.
    names = "client_body", "proxy", "fastcgi", "uwsgi", "scgi"
    temporary = "".join(f"{name}_temp_path {folder}/{name};\n" for name in names)
    if os.geteuid() == 0:
        temporary = ""
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        "events {}\nhttp { include /etc/nginx/mime.types; access_log off;\n"
        f"{temporary} include {folder}/site.conf; }}\n"
    )
    command = ["nginx", "-c", folder / "nginx.conf", "-e", folder / "error.log"]
    subprocess.run([*command, "-t"], check=True, capture_output=True)
    with running(command, port):
        yield port


@contextmanager
def haproxy(folder, configuration):
    port = free_port()
    bind = "bind :443 ssl crt /etc/haproxy/service.pem"
    text = replaced(configuration, (bind, f"bind 127.0.0.1:{port}"))
    (folder / "haproxy.cfg").write_text(text)
    with running(["haproxy", "-db", "-f", folder / "haproxy.cfg"], port):
        yield port


@contextmanager
def pgbouncer(folder, configuration, account=None):
    """Run PgBouncer with this configuration; yield its port.

    PgBouncer refuses to run as root. If root runs the tests, the user ``account`` runs it.
    """
    port = free_port()
    text = replaced(configuration, ("listen_port = 6432", f"listen_port = {port}"))
    path = folder / "pgbouncer.ini"
    path.write_text(text)
    identity = {}
    if os.geteuid() == 0:
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    with running(["pgbouncer", "-q", path], port, stderr=subprocess.DEVNULL, **identity):
        yield port
