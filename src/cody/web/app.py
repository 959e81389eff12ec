"""The server: pages for people, JSON for programs, and the limits of both."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.routing import Match

from cody._version import __version__
from cody.errors import BudgetError, CallError, CodyError
from cody.graph.columns import LONGEST_NAME
from cody.utils.words import sanitize
from cody.web import bodies, questions
from cody.web import live_pages as pages
from cody.web.guard import Guard
from cody.web.live import BusyError, Live, UnknownError

MOST_LISTED = 100
MOST_PARTNERS = 12

Identifier = Annotated[str, Path(min_length=1, max_length=40)]
Count = Annotated[int, Query(ge=1, le=MOST_LISTED)]
Before = Annotated[int | None, Query(ge=1, le=questions.LARGEST_ROW)]


REFUSED: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.Problem} for status in (400, 401, 403, 404, 405, 413, 429, 503)
}
NO_PAGE: dict[int | str, dict[str, Any]] = REFUSED | {
    status: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "A page that explains it"}
    for status in (400, 404, 503)
}
STATUS = {BusyError: 429, UnknownError: 404, CallError: 400, BudgetError: 503}


def create_app(
    live: Live, *, hosts: frozenset[str] = frozenset({"127.0.0.1", "localhost", "[::1]"}), token: str = ""
) -> Any:
    """The application. `hosts` are the names it may be addressed by; if there is a `token`, requests must carry it."""
    app = FastAPI(
        title="CoDy",
        summary="Which past events, had they not happened, would have changed this prediction?",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=live.lifespan,
        generate_unique_id_function=lambda route: route.name,
    )
    app.add_exception_handler(CodyError, _problem)
    app.add_exception_handler(405, _other_methods)

    _add_pages(app, live)
    _add_questions(app, live)
    _add_searches(app, live)
    return Guard(app, hosts=hosts, token=token, largest_body=live.limits.body)


async def _problem(_: Request, error: Exception) -> Response:
    """An error of the library, with its own message."""
    return JSONResponse({"detail": str(error)}, _status(error))


def _status(error: Exception) -> int:
    return next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)


async def _other_methods(request: Request, _: Exception) -> Response:
    """The allowed methods. (FastAPI lists those of one function, though several may share a path.)"""
    here = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    methods = sorted({method for route in here for method in route.methods or ()})
    return JSONResponse({"detail": f"use {' or '.join(methods)}"}, 405, {"allow": ", ".join(methods)})


def _add_pages(app: FastAPI, live: Live) -> None:
    @app.get("/", response_class=HTMLResponse, responses=NO_PAGE)
    def home(entered: Annotated[questions.Address, Query()]) -> HTMLResponse:
        """The page of a link, of a node, or of several links in a table; by default, what is worth looking at."""
        try:
            return _page_of(live, entered)
        except questions.FieldError as error:
            return HTMLResponse(pages.start_page(live, live.graph.num_events, entered, error), 400)
        except CodyError as error:
            return HTMLResponse(pages.error_page(live, str(error)), _status(error))

    @app.exception_handler(RequestValidationError)
    async def too_long(request: Request, error: RequestValidationError) -> Response:
        if request.url.path != "/":
            # A NaN or an infinity, which is part of what is wrong, as text: JSON has none. Half a letter as an escape.
            wrong = json.loads(json.dumps(jsonable_encoder(error.errors())), parse_constant=str)
            return Response(json.dumps({"detail": wrong}), 422, media_type="application/json")
        first = error.errors()[0]
        return HTMLResponse(pages.error_page(live, f"{first['loc'][-1]}: {first['msg']}"), 400)

    @app.exception_handler(404)
    async def nothing_here(request: Request, _: Exception) -> Response:
        """A page for a browser, and JSON for a program."""
        words = f"There is nothing at {sanitize(request.url.path, 80)}."
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(pages.error_page(live, words), 404)
        return JSONResponse({"detail": words}, 404)


def _page_of(live: Live, entered: questions.Address) -> HTMLResponse:
    graph = live.graph
    if entered.node is not None:
        with questions.in_field("node"):
            return HTMLResponse(pages.node_page(live, graph.node(entered.node.strip()), 25))
    if entered.side:
        return HTMLResponse(pages.side_page(live, questions.rows_of(live, ",".join(entered.side))))
    if not entered.given("event", "src", "dst", "time"):
        before = questions.whole("before", entered.before) if entered.before else graph.num_events
        return HTMLResponse(pages.start_page(live, min(max(before, 1), graph.num_events), entered))
    case, problem = live.as_scored(questions.link_of(live, entered)), None
    try:
        case = questions.with_edits(live, case, entered)
        options = {
            name: questions.whole(name, text) for name, text in entered.given("evaluations", "candidates").items()
        }
    except questions.FieldError as error:  # the page of the link, with what was typed
        problem, options = error, {}
    by = questions.decide_by(live, case, entered.given(*questions.WAYS))
    wrong = bool(by.problem or problem)
    choice = options | {"why_not": bool(entered.why_not) and entered.why_not not in ("0", "false")}
    wanted = None if wrong else entered.explainer
    return HTMLResponse(pages.link_page(live, case, wanted, by, choice, entered, problem), 400 if wrong else 200)


def _add_questions(app: FastAPI, live: Live) -> None:
    graph = live.graph

    @app.get("/api/about", responses=REFUSED)
    def about() -> bodies.About:
        """The data and the model of this server."""
        sizes = {"events": graph.num_events, "nodes": graph.num_nodes}
        data, model = live.data_name, live.model_name
        return bodies.About(version=__version__, data=data, model=model, explainers=pages.NAMES, **sizes)

    @app.post("/api/score", responses=REFUSED)
    def score(question: questions.LinkQuestion) -> bodies.Scored:
        """The prediction with nothing changed, and with changes."""
        return bodies.scored_body(
            live.score(live.as_scored(questions.as_case(graph, question)), questions.as_decision(question))
        )

    @app.get("/api/events", responses=REFUSED)
    def events(before: Before = None, count: Count = 25) -> list[bodies.EventBody]:
        """The latest events before a row, latest first, each with the model's prediction just before it."""
        last = graph.num_events if before is None else min(before, graph.num_events)
        return list(map(bodies.event_body, live.events(last, count)))

    @app.get("/api/nodes/{name:path}", responses=REFUSED)
    def node(name: Annotated[str, Path(min_length=1, max_length=LONGEST_NAME)], count: Count = 25) -> bodies.Node:
        """A node with its latest events and its most likely partners."""
        try:
            number = graph.node(name)
        except CallError as error:
            raise UnknownError(str(error)) from None
        called, events = graph.name(number), list(map(bodies.event_body, live.events_of(number, count)))
        partners = [bodies.partner_body(link, called) for link in live.partners(number, MOST_PARTNERS)]
        return bodies.Node(name=called, events=events, partners=partners)


def _add_searches(app: FastAPI, live: Live) -> None:
    @app.post("/api/explanations", responses=REFUSED)
    def start(search: questions.Search) -> bodies.SearchProgress:
        """Start a search, or find the one for the same request; it needs a look every few seconds to go on."""
        case, decision = live.as_scored(questions.as_case(live.graph, search)), questions.as_decision(search)
        return bodies.progress_body(live.search(case, search.explainer, decision=decision, **search.options))

    @app.get("/api/explanations/{id}", responses=REFUSED)
    def look(id: Identifier) -> bodies.SearchProgress:
        """How far a search is."""
        return bodies.progress_body(live.job(id))

    @app.delete("/api/explanations/{id}", responses=REFUSED)
    def cancel(id: Identifier) -> bodies.SearchProgress:
        """Stop a search and delete it."""
        return bodies.progress_body(live.cancel(id))

    document = {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "The document"}

    @app.get("/api/explanations/{id}/document", responses=REFUSED | {200: document})
    def read(id: Identifier) -> Response:
        """The explanation that a search found: a document of the schema cody/explanation/3."""
        job = live.job(id)
        if job.why is None:
            raise UnknownError(f"this search has no result: it is {job.state}")
        return Response(job.why.to_json(), media_type="application/json")
