"""A parser of HTML pages for tests."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The tags, text and scripts of an HTML file, with unclosed and stray tags."""

    VOID = frozenset(["meta", "input", "br", "wbr", "img", "link"])

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.stray: list[str] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.stray.append(tag)

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.text).append(data)


def section(page: str, identity: str) -> str:
    """Return the text of one clause's section, on one line."""
    start = page.index(f'<section class="clause" id="c-{identity}">')
    return " ".join(" ".join(Page(page[start : page.index("</section>", start)]).text).split())
