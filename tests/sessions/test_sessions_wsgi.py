"""Sessions of a WSGI application: cookies, saving, expiry, failures. No sockets."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from threading import Event, Thread
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py import blocking
from jgroups_py.cache import Fqn
from jgroups_py.errors import CacheRefused, ConfigError, ReplicationError
from jgroups_py.sessions import SESSION, Session, SessionSettings, SessionStore, WsgiSessions
from jgroups_py.sessions.ids import ids_in, new_id, node_name
from jgroups_py.sessions.store import SWEEP_INTERVAL

Page = Callable[[Session], Any]


@pytest.fixture
def cache() -> Iterator[blocking.TreeCache]:
    with blocking.open_tree_cache("local.xml", timeout=20) as opened:
        yield opened


class Site:
    """One visitor of an application; both are watched by wsgiref's validator."""

    def __init__(
        self,
        cache: blocking.TreeCache,
        settings: SessionSettings | None = None,
        route: str = "",
    ) -> None:
        self.now = 1000.0
        self.page: Page = dict
        store = SessionStore(settings, route=route, clock=lambda: self.now)
        self.sessions = WsgiSessions(validator(self._application), cache, store=store)
        self.cookie = ""
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.seen: Any = None

    def _application(self, environ: Any, start: Any) -> Iterable[bytes]:
        self.seen = self.page(environ[SESSION])
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"hello"]

    def visit(self, page: Page | None = None, cookie: str | None = None) -> Any:
        self.page = page or dict
        environ: dict[str, Any] = {"HTTP_COOKIE": self.cookie if cookie is None else cookie}
        environ["QUERY_STRING"] = ""
        setup_testing_defaults(environ)
        environ["wsgi.errors"] = io.StringIO()

        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            self.status, self.headers = status, headers
            return lambda data: None

        self.seen = None
        body = validator(self.sessions)(environ, start)
        try:
            text = b"".join(body)
        finally:
            body.close()  # type: ignore[attr-defined]
        for value in self.set_cookies:
            self.cookie = value.partition(";")[0]
        return text if self.seen is None else self.seen

    @property
    def set_cookies(self) -> list[str]:
        return [value for name, value in self.headers if name == "Set-Cookie"]


def setting(**values: Any) -> Page:
    return lambda session: session.update(values) or dict(session)


def test_a_visitor_gets_a_cookie_with_the_first_attribute(cache: blocking.TreeCache) -> None:
    site = Site(cache, route="A")
    assert site.visit() == {} and site.set_cookies == [] and cache.children("/sessions") == ()
    site.visit(setting(user="Ada"))
    (cookie,) = site.set_cookies
    value, *parts = cookie.split("; ")
    assert parts == ["Path=/", "Secure", "HttpOnly", "SameSite=Lax"]
    assert value.startswith("session=") and value.endswith(".A") and len(value) == 8 + 43 + 2
    assert ("Cache-Control", "no-store") in site.headers
    assert site.visit() == {"user": "Ada"} and site.set_cookies == []
    # A person who can list the cache cannot take over the session.
    id = value.removeprefix("session=").removesuffix(".A")
    assert cache.children("/sessions") == (node_name(id),) and id not in node_name(id)


def test_an_id_that_nobody_gave_out_is_not_taken_over(cache: blocking.TreeCache) -> None:
    site = Site(cache)
    mine = new_id()
    assert site.visit(setting(a=1), f"session={mine}") == {"a": 1}
    assert mine not in site.cookie
    assert site.visit(cookie=f"session={mine}") == {}
    assert site.set_cookies[0].startswith("session=; ") and "Max-Age=0" in site.set_cookies[0]


def test_the_route_in_the_cookie_follows_the_session(cache: blocking.TreeCache) -> None:
    site, other = Site(cache, route="A"), Site(cache, route="B")
    site.visit(setting(a=1))
    assert other.visit(cookie=site.cookie) == {"a": 1}
    assert other.cookie == site.cookie.removesuffix("A") + "B"
    other.visit()
    assert other.set_cookies == []


def test_a_value_changed_in_place_is_saved_and_the_rest_is_not_written(
    cache: blocking.TreeCache,
) -> None:
    site = Site(cache)
    site.visit(setting(cart=["milk"], user="Ada"))
    writes = cache.statistics().counters["writes"]
    assert site.visit() == {"cart": ["milk"], "user": "Ada"}
    assert cache.statistics().counters["writes"] == writes
    site.visit(lambda session: session["cart"].append("tea"))
    assert site.visit(lambda session: session.pop("user")) == "Ada"
    assert site.visit() == {"cart": ["milk", "tea"]}
    assert cache.statistics().counters["writes"] == writes + 2


def test_requests_side_by_side_do_not_undo_each_other(cache: blocking.TreeCache) -> None:
    site = Site(cache)
    site.visit(setting(a=0, b=0))
    inside, go_on = Event(), Event()

    def slow(session: Session) -> Any:
        session["a"] = session["a"] + 1
        inside.set()
        assert go_on.wait(20)

    other = Site(cache)
    thread = Thread(target=other.visit, args=(slow, site.cookie))
    thread.start()
    assert inside.wait(20)
    site.visit(setting(b=7))
    go_on.set()
    thread.join()
    assert site.visit() == {"a": 1, "b": 7}


def test_a_user_logs_out_and_in(cache: blocking.TreeCache) -> None:
    site = Site(cache)
    site.visit(setting(a=1, b=2))
    before = site.cookie

    def log_in(session: Session) -> None:
        session.renew()
        session["user"] = "Ada"
        del session["b"]

    site.visit(log_in)
    assert site.cookie != before and site.visit() == {"a": 1, "user": "Ada"}
    assert site.visit(cookie=before) == {} and len(cache.children("/sessions")) == 1
    site.visit(setting(a=1))
    site.visit(Session.invalidate)
    assert "Max-Age=0" in site.set_cookies[0] and len(cache.children("/sessions")) == 1
    first = site.cookie
    site.visit(setting(a=1))

    def again(session: Session) -> None:
        session.invalidate()
        session["new"] = True

    site.visit(again)
    assert site.cookie != first and site.visit() == {"new": True}


def test_a_session_is_over_when_it_was_not_used_or_is_too_old(cache: blocking.TreeCache) -> None:
    site = Site(cache, SessionSettings(max_idle=100, max_age=1000))
    site.visit(setting(a=1))
    for _ in range(10):
        site.now += 94  # a visit that only reads counts as use
        assert site.visit() == {"a": 1}
    site.now += 94
    assert site.visit() == {} and cache.children("/sessions") == ()
    site.visit(setting(a=1))
    site.now += 101
    assert site.visit() == {} and site.sessions.statistics()["expired"] == 2


def test_sessions_that_are_over_are_swept_by_other_visits(cache: blocking.TreeCache) -> None:
    """Sessions in use, and nodes that are no sessions, stay."""
    site = Site(cache, SessionSettings(max_idle=100))
    cache.put("/sessions/other", "k", 1)
    for _ in range(50):
        site.visit(setting(a=1), "")
    kept = site.cookie
    site.now += 90
    site.visit(setting(a=2), kept)
    site.now += 50
    for _ in range(10):
        site.now += SWEEP_INTERVAL / 2
        site.visit(cookie="")
    assert len(cache.children("/sessions")) == 2 and site.sessions.statistics()["expired"] == 49
    assert site.visit(cookie=kept) == {"a": 2}


def test_a_session_that_is_used_again_is_not_swept(cache: blocking.TreeCache) -> None:
    """The session was expired when it was read, and is in use when it would be removed."""
    site = Site(cache, SessionSettings(max_idle=100))
    site.visit(setting(a=1))
    path = Fqn(("sessions", *cache.children("/sessions")))
    cache.run(site.sessions.store._expire, [path])
    assert site.visit() == {"a": 1}
    site.now += 101
    cache.run(site.sessions.store._expire, [path, Fqn(("sessions", "none"))])
    assert cache.children("/sessions") == ()


def test_a_session_that_was_removed_meanwhile_does_not_come_back(cache: blocking.TreeCache) -> None:
    site = Site(cache)
    site.visit(setting(a=1))

    def page(session: Session) -> None:
        session["a"] = 2
        Site(cache).visit(Session.invalidate, site.cookie)

    assert b"has ended" in site.visit(page) and site.status.startswith("409")
    assert cache.children("/sessions") == () and site.sessions.statistics()["gone"] == 1


@pytest.mark.parametrize(("definite", "said"), [(True, b"Nothing was"), (False, b"not certain")])
def test_the_answer_is_not_sent_when_the_session_is_not_saved(
    definite: bool, said: bytes, cache: blocking.TreeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(cache)
    site.visit(setting(a=1))

    async def fail(*_: Any, **__: Any) -> bool:
        raise ReplicationError("no buddy answers", definite=definite)

    monkeypatch.setattr(type(cache._value), "update_node", fail)
    site.page = setting(a=2)
    site.visit(site.page)
    assert site.status == "503 Service Unavailable"
    assert site.sessions.statistics()["failed_saves"] == 1
    monkeypatch.setattr(type(cache._value), "read_node", fail)
    assert said in site.visit(lambda _: pytest.fail("not called"))
    assert site.status.startswith("503")


def test_streams_and_the_old_way_of_writing_work(cache: blocking.TreeCache) -> None:
    """The response's head waits for the first chunk; later changes are saved at the end."""
    site = Site(cache)
    sent: list[str] = []

    def stream(environ: Any, start: Any) -> Iterator[bytes]:
        environ[SESSION]["a"] = 1
        start("200 OK", [("Content-Type", "text/plain")])
        sent.append("started")
        yield b"first"
        environ[SESSION]["late"] = 2
        yield b"second"

    def write(environ: Any, start: Any) -> list[bytes]:
        send = start("200 OK", [("Content-Type", "text/plain")])
        environ[SESSION]["written"] = 3
        send(b"first")
        return [b"second"]

    for application in (stream, write):
        site.sessions = WsgiSessions(validator(application), cache)
        site.seen = None
        assert site.visit().endswith(b"second")
    assert sent == ["started"]
    site = Site(cache)
    paths = [f"/sessions/{name}" for name in cache.children("/sessions")]
    nodes = [cache.get_node(path) for path in paths]
    mine = [{k: v for k, v in (n or {}).items() if k[0] != "@"} for n in nodes]
    assert mine == [{"a": 1, "late": 2, "written": 3}]


def test_an_application_that_raises_changes_nothing(cache: blocking.TreeCache) -> None:
    site = Site(cache)
    site.visit(setting(a=1))

    def page(session: Session) -> None:
        session["a"] = 2
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        site.visit(page)
    for wrong in ({"@used": 1}, {"": 1}, {"a": object()}):
        with pytest.raises(CacheRefused):
            site.visit(setting(**wrong))
    assert site.visit() == {"a": 1}


def test_a_session_is_a_mapping() -> None:
    session = Session(lambda data: data)
    session["a"] = 1
    session.update(b=2)
    assert dict(session) == {"a": 1, "b": 2} and len(session) == 2 and "a" in session
    del session["a"]
    assert "a" not in session and list(session) == ["b"] and session.setdefault("a", 3) == 3
    with pytest.raises(KeyError):
        session["nope"]
    with pytest.raises(KeyError):
        del session["nope"]
    assert session.name == "" and "(new)" in repr(session)


@given(st.text(alphabet='sesion=;." Aä\x00', max_size=100))
def test_no_cookie_header_breaks_it(header: str) -> None:
    assert all(len(id) == 43 for id, _ in ids_in("session=" + header, "session"))
    assert list(ids_in(header, "session")) == []  # too few characters for an id


def test_a_cookie_among_others_is_found() -> None:
    id = new_id()
    header = f'a=b; session=x; other={new_id()}; session="{id}.B" ; session={id}.../'
    assert list(ids_in(header, "session")) == [(id, "B")]
    assert len(list(ids_in(";".join([f"session={id}"] * 1000), "session"))) == 20


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cookie": "a b"}, "cookie is"),
        ({"root": "/"}, "root is"),
        ({"root": "/_buddy_backup_/x"}, "root is"),
        ({"root": "sessions"}, "begins with /"),
        ({"max_idle": 0}, "max_idle must be > 0"),
        ({"max_idle": float("nan")}, "max_idle must be > 0"),
        ({"max_age": -1}, "max_age"),
        ({"same_site": "lax"}, "Lax, Strict or None"),
        ({"same_site": "None", "secure": False}, "needs secure"),
        ({"path": "/; HttpOnly"}, "path is"),
        ({"domain": "a;b"}, "domain is"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SessionSettings(**given)


def test_a_route_that_does_not_fit_into_a_cookie_is_refused() -> None:
    with pytest.raises(ConfigError, match="route is"):
        SessionStore(route="a.b")
