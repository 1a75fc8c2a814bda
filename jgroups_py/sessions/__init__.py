"""HTTP sessions in a tree cache: middleware for WSGI and ASGI.

    with blocking.open_tree_cache("buddy.xml", cluster="shop") as cache:
        serve(WsgiSessions(app, cache, route="A"))

An application finds its session as ``environ["jgroups_py.session"]`` (``scope[...]`` in ASGI), a mapping
of names to values. A response is sent when what the request changed has its copies: who has seen it
finds it, also when this process is killed. See design/sessions.md.
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
