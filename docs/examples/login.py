"""A login page for any OpenID provider: ``gunicorn --bind 127.0.0.1:9000 login:app``.

Needs authlib, flask, gunicorn, requests (for authlib) and urllib3 2. docs/sign-in.md lists the
variables.
"""

import os
from urllib.parse import urlencode

import urllib3
from authlib.integrations.base_client import OAuthError
from authlib.integrations.flask_client import OAuth
from flask import Flask, make_response, redirect, render_template_string, request, session

ORIGIN, SERVICE = os.environ["ORIGIN"], os.environ["SERVICE"]

app = Flask(__name__)
app.secret_key = os.environ["SECRET_KEY"]
# This cookie lasts from one step of signing in to the next. The cookie of the API is named session.
app.config.update(
    SESSION_COOKIE_NAME="login",
    SESSION_COOKIE_PATH="/login",
    SESSION_COOKIE_SECURE=True,
    SESSION_COOKIE_SAMESITE="Lax",
)
provider = OAuth(app).register(
    "provider",
    client_id=os.environ["CLIENT_ID"],
    client_secret=os.environ["CLIENT_SECRET"],
    server_metadata_url=os.environ["ISSUER"] + "/.well-known/openid-configuration",
    client_kwargs={"scope": "openid email profile", "code_challenge_method": "S256"},
)


def end_of_session():
    return provider.load_server_metadata().get("end_session_endpoint")


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { background: Canvas; }
  main { max-width: 30rem; margin: 2rem auto; padding: 0 1rem; }
</style>
<main>
  <h1>Sign in</h1>
  <p>{{ text }}</p>
  <p><a href="/login?{{ {"next": wanted} | urlencode }}">{{ link }}</a></p>
</main>
"""


def say(text, status=403, link="Sign in with another account"):
    # The text can come from another server, or from a link of a stranger: the template escapes it.
    wanted = session.get("next", "/")
    page = render_template_string(PAGE, text=text, link=link, wanted=wanted)
    response = make_response(page, status)
    response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
    if status in (400, 403):
        # The provider then asks for the account, although it still knows the refused one.
        response.set_cookie("out", "1", 30 * 86400, path="/login", secure=True, samesite="Lax")
    return response


@app.errorhandler(500)
def fail(_error):
    return say("The provider or the service does not answer. Try again.", 502, "Try again")


@app.get("/login")
def login():
    wanted = request.args.get("next", "/")[:1000]
    if not wanted.isprintable():
        return say("This link is broken.", 400, "Sign in")
    session["next"] = wanted
    if not end_of_session():
        # This page cannot end the session at the provider, so the provider asks for the account.
        ask = {"prompt": "select_account"}
    elif "out" in request.cookies:
        # The last user has signed out or was refused. The provider asks even if its own session
        # has not ended.
        ask = {"prompt": "login"}
    else:
        ask = {}
    return provider.authorize_redirect(f"{ORIGIN}/login/callback", **ask)


@app.get("/login/out")
def out():
    query = {"client_id": os.environ["CLIENT_ID"], "post_logout_redirect_uri": f"{ORIGIN}/"}
    end = end_of_session()
    if end:
        return redirect(f"{end}?{urlencode(query)}")
    return say("You are signed out.", 200, "Sign in again")


@app.get("/login/callback")
def callback():
    try:
        person = provider.userinfo(token=provider.authorize_access_token())
    except OAuthError as error:
        return say(f"You are not signed in: {error.error}")
    # Some providers send a string, and the string "false" is true in Python.
    verified = person.get("email_verified")
    if verified is not True and verified != "true":
        return say("Your provider has not verified your e-mail address.")
    headers = {"Authorization": f"Bearer {os.environ['LOGIN_KEY']}"}
    email = {"email": person.get("email")}
    # If the service does not accept the name, try again without it.
    for body in ({**email, "name": person.get("name")}, email):
        made = urllib3.request(
            "POST", f"{SERVICE}/api/session", json=body, headers=headers, timeout=10, retries=False
        )
        if made.status != 400:
            break
    if made.status == 404:
        text = f"{email['email']} has no account here. Ask an owner of your workspace to add it."
        return say(text)
    if made.status == 400:
        return say(made.json()["message"], 400)
    if made.status != 201:
        return say(f"{made.json()['message']}.", made.status, "Try again")
    # Go where the person wanted to go. The slash ends the host, so it is never another origin.
    response = redirect(ORIGIN + "/" + session.pop("next", "").removeprefix("/"))
    cookie = {"path": "/api", "max_age": 30 * 86400}
    response.set_cookie(
        "session", made.json()["token"], **cookie, secure=True, httponly=True, samesite="Lax"
    )
    response.delete_cookie("out", path="/login")
    return response
