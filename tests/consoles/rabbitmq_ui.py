"""RabbitMQ's own console in a browser, used as a person does: by its forms and its links.

Source: rabbitmq_management 3.10, priv/www/js.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tests.brokers.processes import wait_until

from .watched import Fetched, Watched

POPUP = "$('.form-popup-warn:visible, .form-popup-info:visible')"
IDLE = "typeof outstanding_reqs !== 'undefined' && outstanding_reqs.length === 0"
QUIET = f"{IDLE} && (document.querySelectorAll('#main > *').length > 0 || {POPUP}.length > 0)"
"""A page stands, or the refusal of what it is made of."""


class RabbitUi:
    """One console at an address, in one browser. Each step waits for what it leads to."""

    def __init__(self, browser: Watched, address: str) -> None:
        self.browser = browser
        self.url = f"http://{address}/"

    def log_in(self, user: str, password: str) -> None:
        self.open_login()
        self.fill_login(user, password)
        self.browser.wait_for("document.querySelectorAll('#tabs a').length > 6")
        # A page that renews itself is another one in the midst of a step, and nothing moves in a window that nobody looks at.
        self.browser.evaluate("set_timer_interval(null); jQuery.fx.off = true; 0")
        self.settled()

    def open_login(self) -> None:
        self.browser.go(self.url)
        self.browser.wait_for("!!document.querySelector('#login form')")

    def fill_login(self, user: str, password: str) -> None:
        self.browser.evaluate(
            f"$('[name=username]').val({json.dumps(user)}); $('[name=password]').val({json.dumps(password)});"
            " $('#login form').submit(); 0"
        )

    def log_out(self) -> None:
        self.browser.evaluate("$('form[action=\"#/logout\"]').submit(); 0")
        self.browser.wait_for("!!document.querySelector('#login form')")

    def settled(self) -> None:
        """The page stands, and nothing more is asked for."""
        self.browser.wait_for(QUIET)

    def open(self, place: str) -> str:
        """The page at `#/…`, and all that can be read there, hidden sections too."""
        self.clear()
        at = json.dumps(place)
        self.browser.wait_for(IDLE)  # a page that is left too soon takes its questions back
        self.browser.evaluate(
            f"replace_content('main', ''); if (location.hash === {at}) app.refresh(); else app.setLocation({at}); 0"
        )
        self.settled()
        self.browser.evaluate(
            "$('.section-hidden, .section-invisible').attr('class', 'section-visible'); $('#main .hider').show(); 0"
        )
        return self.browser.text()

    def open_queue(self, name: str) -> str:
        return self.open(f"#/queues/%2F/{quote(name, safe='')}")

    def send(self, form: str, given: Mapping[str, str] | None = None) -> None:
        """Fills the form of an action and sends it."""
        at = f"$('#main form[action={json.dumps(form)}]')"
        self.browser.wait_for(f"{at}.length > 0")
        for name, value in (given or {}).items():
            field = json.dumps(f"[name={json.dumps(name)}]")
            self.browser.evaluate(f"{at}.find({field}).val({json.dumps(value)}); 0")
        self.browser.evaluate(f"{at}.first().submit(); 0")

    def messages(self, count: int = 5) -> str:
        """What the page shows of the queue's messages after "Get messages"."""
        before = len(self.answers("POST", "/get"))
        self.send("#/queues/get", {"count": str(count), "ackmode": "ack_requeue_true"})
        wait_until(lambda: self.evaluated() and len(self.answers("POST", "/get")) > before, "messages were asked for")
        self.browser.wait_for("$('#msg-wrapper').is(':visible') && $('#msg-wrapper').text().includes('Payload')")
        return str(self.browser.evaluate("$('#msg-wrapper').text()"))

    def evaluated(self) -> bool:
        """Lets the browser tell what has happened."""
        return self.browser.evaluate("true") is True

    def answers(self, method: str, end: str) -> list[Fetched]:
        return [each for each in self.browser.fetched if each.method == method and each.path.partition("?")[0].endswith(end)]

    def popup(self) -> str:
        """What the console has popped up, once it has; the next one may come."""
        self.browser.wait_for(f"{POPUP}.length > 0")
        text = str(self.browser.evaluate(f"{POPUP}.text()"))
        self.clear()
        return " ".join(text.split()).removesuffix(" Close")

    def clear(self) -> None:
        """Closes what is popped up."""
        self.browser.evaluate("$('.form-popup-warn, .form-popup-info').stop(true, true).remove(); 0")

    def links(self) -> list[str]:
        """Where the tabs and the pages beside them lead."""
        found = self.browser.evaluate(
            "[...document.querySelectorAll('#tabs a, #rhs a')].map(each => each.getAttribute('href'))"
        )
        assert isinstance(found, list)
        return [str(each) for each in found]

    def walk(self) -> dict[str, str]:
        """Every tab, every page beside it, and every page of one thing that those link to; what each shows, by its place."""
        seen: dict[str, str] = {}
        waiting = self.links()
        while waiting:
            place = waiting.pop(0)
            if place in seen or not place.startswith("#/"):
                continue
            seen[place] = self.open(place)
            self.clear()
            own = self.browser.evaluate(
                "[...document.querySelectorAll('#main a, #rhs a, #tabs a')].map(each => each.getAttribute('href'))"
            )
            assert isinstance(own, list)
            waiting += [str(each) for each in own if each]
        return seen

    def choose_import(self, file: Path) -> None:
        self.browser.choose_file("input[name=file]", file)
        self.browser.evaluate("$('input[value=\"Upload broker definitions\"]').click(); 0")
