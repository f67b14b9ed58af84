"""The web server of a task: the page for annotators, the page for the owner, and their API.

People sign in with the token in their link, which becomes a cookie. On this machine, the owner
needs no token. Requests that change anything must come from the page itself: they carry a header
that other sites cannot send. Images are requested by the number of their item, never by a path.
"""

import asyncio
import io
import ipaddress
import json
import mimetypes
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from naysay._base.errors import InvalidInput, NaysayError
from naysay.annotation import overview
from naysay.annotation.exports import stream
from naysay.annotation.questions import Settings
from naysay.annotation.queue import AHEAD, MOST_AHEAD, Question
from naysay.annotation.retraining import Learner
from naysay.annotation.store import LostDatabase, Person, Task

PAGE = Path(__file__).parent / "page"
_ASSETS = {each.name for each in PAGE.iterdir() if each.suffix != ".html"}
_PER_SECOND, _BURST = 100.0, 300.0  # requests by one person
_MOST_WRONG = 20  # invalid tokens per minute from one address
_REMEMBERED = 10.0  # seconds for which a valid token is cached
_LONGEST_BODY = 1 << 16
# All browsers show these.
_SHOWN = {"image/jpeg", "image/png", "image/gif", "image/webp", "image/bmp"}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Check whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Server:
    """The web application, and its state between requests."""

    def __init__(self, task: Task, *, local: Person | None = None, port: int = 0) -> None:
        self.task, self.local = task, local
        self.settings: Settings = task.settings
        self.cookie = f"naysay_{port}"  # cookies are shared between the ports of a host
        self.known: dict[str, tuple[float, Person]] = {}
        self.allowance: dict[int, tuple[float, float]] = {}
        self.wrong: dict[str, list[float]] = {}
        self.learner = Learner(task)
        routes = [
            Route("/", self.page),
            Route("/owner", self.page),
            Route("/page/{name}", self.asset),
            Route("/api/next", self.next),
            Route("/api/answer", self.answer, methods=["POST"]),
            Route("/api/undo", self.undo, methods=["POST"]),
            Route("/api/later", self.later, methods=["POST"]),
            Route("/api/progress", self.progress),
            Route("/api/image/{item:int}", self.image),
            Route("/api/owner", self.overview),
            Route("/api/owner/reopen", self.reopen, methods=["POST"]),
            Route("/api/owner/invite", self.invite, methods=["POST"]),
            Route("/api/owner/learn", self.learn, methods=["POST"]),
            Route("/api/owner/export/{kind}", self.export),
        ]
        self.app = Starlette(
            routes=routes,
            middleware=[Middleware(Guard, server=self)],
            exception_handlers={HTTPException: _refuse, NaysayError: _refuse},
        )

    # Authentication.

    def person(self, request: Request) -> Person:
        """Identify the sender of a request by their token, or as the owner on this machine."""
        token = request.query_params.get("token") or request.cookies.get(self.cookie)
        if token:
            address = request.client.host if request.client else ""
            found = self._by_token(token, address)
            if found is not None:
                return found
            if request.query_params.get("token"):
                raise HTTPException(
                    403, "This link is not valid, or no longer valid. Ask for a new one."
                )
        if self.local is not None and _is_here(request):
            return self.local
        raise HTTPException(403, "Please open the link that was sent to you.")

    def _by_token(self, token: str, address: str) -> Person | None:
        now = time.monotonic()
        remembered = self.known.get(token)
        if remembered is not None and now - remembered[0] < _REMEMBERED:
            return remembered[1]
        tried = [each for each in self.wrong.get(address, []) if now - each < 60]
        if len(tried) >= _MOST_WRONG:
            raise HTTPException(429, "Too many invalid links. Wait a minute.")
        found = self.task.find_person(token) if len(token) < 200 else None
        if found is None:
            self.known.pop(token, None)
            self.wrong[address] = [*tried, now]
            if len(self.wrong) > 10_000:
                self.wrong.clear()
            return None
        self.known[token] = now, found
        return found

    def allow(self, who: Person) -> None:
        """Reject requests that one person sends faster than a human can."""
        now = time.monotonic()
        left, since = self.allowance.get(who.id, (_BURST, now))
        left = min(_BURST, left + (now - since) * _PER_SECOND)
        self.allowance[who.id] = max(left - 1, 0), now
        if left < 1:
            raise HTTPException(429, "Too many requests. Wait a second.")

    def owner(self, request: Request) -> Person:
        """Identify the owner as the sender of a request, and reject other people."""
        who = self.person(request)
        if not who.is_owner:
            raise HTTPException(403, "Only the owner of the task can see this.")
        return who

    async def asker(
        self, request: Request, *, owner: bool = False
    ) -> tuple[Person, dict[str, Any]]:
        """Identify the sender of a request that changes something, and parse its body."""
        who = self.owner(request) if owner else self.person(request)
        self.allow(who)
        body = await request.body()
        try:
            said = json.loads(body)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise HTTPException(400, "The body must be a JSON object.")
        return who, said

    # The pages.

    async def page(self, request: Request) -> Response:
        """Send the page for annotators or the owner. The token of the link becomes a cookie."""
        is_owner, headers = request.url.path == "/owner", {"cache-control": "no-cache"}
        name, identify = ("owner", self.owner) if is_owner else ("index", self.person)
        try:
            identify(request)
        except HTTPException as problem:
            return FileResponse(PAGE / "refused.html", problem.status_code, headers)
        response = FileResponse(PAGE / f"{name}.html", headers=headers)
        token = request.query_params.get("token")
        if token:
            response.set_cookie(
                self.cookie,
                token,
                max_age=365 * 86400,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
        return response

    async def asset(self, request: Request) -> Response:
        """Send a script or style sheet of the pages."""
        name = request.path_params["name"]
        if name not in _ASSETS:
            raise HTTPException(404, "There is no such file.")
        return FileResponse(PAGE / name, headers={"cache-control": "no-cache"})

    # Requests by annotators.

    async def next(self, request: Request) -> Response:
        """Lease further questions to this person, and send all that they have."""
        who = self.person(request)
        self.allow(who)
        deal = self.task.submit(self.task.queue.deal, {who.id: AHEAD})
        questions = (await asyncio.wrap_future(deal))[who.id]
        progress = await asyncio.to_thread(self.task.progress, who.id)
        return _Json(
            {
                "questions": [self._question(each) for each in questions],
                "progress": progress,
                "task": {
                    "title": self.settings.title,
                    "kind": self.settings.kind,
                    "classes": self.settings.classes,
                    "none_of_these": self.settings.none_of_these,
                    "ahead": AHEAD,
                    "n_offered": 2 if self.settings.ask == "yes-no" else self.settings.n_offered,
                },
                "person": {"name": who.name, "is_owner": who.is_owner},
            }
        )

    def _question(self, question: Question) -> dict[str, Any]:
        cells = question.cells
        return {
            "deal": question.deal,
            "item": question.item,
            "name": question.name if self.settings.kind != "images" else Path(question.name).name,
            "cells": None if cells is None else json.loads(cells, parse_constant=str),  # NaN
            "question": question.question,
            "offered": question.offered,
        }

    async def answer(self, request: Request) -> Response:
        """Save an answer, and send further questions if the page requests them."""
        who, said = await self.asker(request)
        _check_number(said)
        if not isinstance(said.get("id"), str):
            raise HTTPException(400, "id must be a string that the page drew.")
        want = said.get("want", 0)
        want = min(want, MOST_AHEAD) if isinstance(want, int) else 0

        status, more = await asyncio.wrap_future(self.task.submit_answer(who.id, said, want))
        return _Json({"status": status, "questions": [self._question(e) for e in more]})

    async def undo(self, request: Request) -> Response:
        """Withdraw an answer, and send its question again."""
        who, said = await self.asker(request)
        job = self.task.submit(self.task.queue.undo, who.id, str(said.get("id")))
        question = await asyncio.wrap_future(job)
        if question is None:
            raise HTTPException(404, "This answer does not exist.")
        return _Json({"question": self._question(question)})

    async def later(self, request: Request) -> Response:
        """Put a question off."""
        who, said = await self.asker(request)
        _check_number(said)
        job = self.task.submit(self.task.queue.later, who.id, said["deal"])
        done = await asyncio.wrap_future(job)
        return _Json({"status": "later" if done else "not leased"})

    async def progress(self, request: Request) -> Response:
        """Send the numbers of answers."""
        who = self.person(request)
        return _Json(await asyncio.to_thread(self.task.progress, who.id))

    async def image(self, request: Request) -> Response:
        """Send the image of an item."""
        self.person(request)
        return await asyncio.to_thread(self._image, request.path_params["item"])

    def _image(self, item: int) -> Response:
        name = self.task.path_of(item) if item < 2**62 else None
        root = Path(self.settings.root)
        if name is None:
            raise HTTPException(404, "This image does not exist.")
        path = (root / name).resolve()
        # a symbolic link may lead elsewhere
        if not path.is_relative_to(root.resolve()) or not path.is_file():
            raise HTTPException(404, "The file of this image is no longer in the folder.")
        headers = {"cache-control": "private, max-age=3600"}
        kind = mimetypes.guess_type(path.name)[0]
        if kind in _SHOWN:
            return FileResponse(path, media_type=kind, headers=headers)
        return Response(_as_png(path), media_type="image/png", headers=headers)

    # Requests by the owner.

    async def overview(self, request: Request) -> Response:
        """Send the figures for the page of the owner."""
        self.owner(request)
        found = await asyncio.to_thread(self.task.read, overview.describe, self.settings)
        return _Json({**found, "learning": self.learner.state()})

    async def reopen(self, request: Request) -> Response:
        """Withdraw answers, so that their questions are asked again."""
        _, said = await self.asker(request, owner=True)
        keys = said.get("ids")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise HTTPException(400, "ids must be a list of the ids of answers.")
        return _Json({"reopened": await asyncio.to_thread(self.task.reopen, keys[:1000])})

    async def invite(self, request: Request) -> Response:
        """Add a person, and send their link."""
        _, said = await self.asker(request, owner=True)
        token = await asyncio.to_thread(self.task.invite, str(said.get("name", "")))
        return _Json({"link": f"{request.base_url}?token={token}"})

    async def learn(self, request: Request) -> Response:
        """Start a process that trains a model on the current answers."""
        await self.asker(request, owner=True)
        await self.learner.start()
        return _Json(self.learner.state())

    async def export(self, request: Request) -> Response:
        """Send all answers while they are read."""
        self.owner(request)
        kind = request.path_params["kind"]
        if kind not in ("csv", "jsonl"):
            raise HTTPException(404, "The formats are csv and jsonl.")
        lines = stream(self.task.answers(), kind)

        async def parts() -> AsyncIterator[str]:
            while part := await asyncio.to_thread(next, lines, ""):
                yield part

        headers = {"content-disposition": f'attachment; filename="answers.{kind}"'}
        kinds = {"csv": "text/csv", "jsonl": "application/jsonl"}
        return StreamingResponse(parts(), media_type=kinds[kind], headers=headers)


class Guard:
    """Rejects requests that do not come from the page, and adds headers to every response."""

    def __init__(self, app: Any, server: Server) -> None:
        self.app, self.server = app, server

    async def __call__(
        self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        problem = self._problem(scope["method"], Headers(scope=scope))
        if problem is None:
            await self.app(scope, receive, send_guarded)
        else:
            await _Json({"error": problem[1]}, problem[0])(scope, receive, send_guarded)

    def _problem(self, method: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self.server.local is not None and not is_loopback(name):
            # The domain of another site may resolve to the address of this machine.
            return 403, "This server can be used from this machine only."
        if method in ("GET", "HEAD"):
            return None
        origin = headers.get("origin")
        if (
            headers.get("x-naysay") != "1"
            or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
            or (origin is not None and origin.partition("://")[2] != host)
        ):
            return 403, "Requests that change data must come from the page itself."
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > _LONGEST_BODY:
            return 413, "The body is too long."
        return None


def _check_number(said: dict[str, Any]) -> None:
    number = said.get("deal")
    if type(number) is not int or not 0 <= number < 2**62:
        raise HTTPException(400, "deal must be the number of a question.")


def _is_here(request: Request) -> bool:
    """Check that a request comes from this machine and did not pass through a proxy."""
    proxied = ("x-forwarded-for", "x-forwarded-host", "forwarded", "x-real-ip")
    return not any(name in request.headers for name in proxied) and (
        request.client is None or is_loopback(request.client.host)
    )


def _as_png(path: Path) -> bytes:
    """Convert an image of a format that browsers do not show to PNG."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            image.thumbnail((2048, 2048))
            shown = ImageOps.exif_transpose(image).convert("RGB")
            out = io.BytesIO()
            shown.save(out, "PNG")
    except Exception:  # Pillow's decoders raise many types for damaged files
        raise HTTPException(404, "This image is damaged.") from None
    return out.getvalue()


class _Json(JSONResponse):
    """JSON in ASCII, which can contain names of files that are not UTF-8."""

    def render(self, content: Any) -> bytes:
        """Encode the content."""
        return json.dumps(content, separators=(",", ":")).encode("ascii")


async def _refuse(request: Request, error: Exception) -> Response:
    """Respond to an error with one line that describes it."""
    status, text = 500, str(error)
    if isinstance(error, HTTPException):
        status, text = error.status_code, str(error.detail)
    elif isinstance(error, LostDatabase):
        status = 503
    elif isinstance(error, InvalidInput):
        status = 400
    return _Json({"error": text}, status)
