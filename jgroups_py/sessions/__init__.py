"""HTTP sessions in a tree cache: middleware for WSGI and ASGI.

    with blocking.open_tree_cache("buddy.xml", cluster="shop") as cache:
        serve(WsgiSessions(app, cache, route="A"))

An application finds its session as ``environ["jgroups_py.session"]`` (``scope[...]`` in ASGI), a mapping of names to
values. A response is sent when the changes of its request have their copies. So a visitor who has seen the response
finds the changes, also when this process is killed. See design/sessions.md.

May import: blocking, cache and the rooms below.
Imported by: testing.explorer, users.
"""

from __future__ import annotations

from jgroups_py.sessions.asgi import AsgiSessions
from jgroups_py.sessions.session import Session
from jgroups_py.sessions.settings import SESSION, SessionSettings
from jgroups_py.sessions.store import SessionGone, SessionStore
from jgroups_py.sessions.wsgi import WsgiSessions

__all__ = [
    "SESSION",
    "AsgiSessions",
    "Session",
    "SessionGone",
    "SessionSettings",
    "SessionStore",
    "WsgiSessions",
]
