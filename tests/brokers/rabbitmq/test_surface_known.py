"""The real broker's own list of its API against Veil's table: no route is without a row."""

from __future__ import annotations

import html
import re

import pytest

from proxy.protocols.http.apis.rabbitmq_management.surface import ANYTHING, row

from ..rabbitmq_server import RabbitServer

pytestmark = pytest.mark.slow
METHODS = ("GET", "PUT", "DELETE", "POST")
_CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)


def listed(page: str) -> list[tuple[str, str]]:
    """(method, path) of all that the page lists; names that stand for something are as they stand there."""
    found = []
    for line in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL):
        cells = _CELL.findall(line)
        if len(cells) < 5:
            continue
        text = html.unescape(re.sub(r"<[^>]*>", "", cells[4]))
        for path in re.findall(r"/api/[^\s(]*", text):
            found += [(method, path) for method, cell in zip(METHODS, cells, strict=False) if "X" in cell]
    return found


def test_every_route_that_the_broker_lists_has_a_row(rabbitmq_server: RabbitServer) -> None:
    with rabbitmq_server.client() as client:
        page = client.ask("GET", "/api/index.html").body.decode()
    routes = listed(page)

    assert len(routes) > 100
    assert [each for each in routes if row(each[0], tuple(part for part in each[1].split("/") if part))[0] is ANYTHING] == []
