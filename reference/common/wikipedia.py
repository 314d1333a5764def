"""Plain text of Wikipedia articles from a MediaWiki XML dump, and the excerpt of 206 pages inside the gensim wheel.

The excerpt is English Wikipedia of April 2016 (CC BY-SA), one of gensim's own test files; the package is located and
never imported. A dump from dumps.wikimedia.org, `*-pages-articles*.xml.bz2`, has the same layout.
"""

from __future__ import annotations

import bz2
import hashlib
import html
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path

from reference.common import sources
from reference.common.errors import SetupError

PACKAGE, PACKAGE_VERSION = "gensim", "4.4.0"
FILE = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
MIN_CHARACTERS = 1000  # of plain text: what is shorter is a list or a stub
Article = tuple[str, str]  # title, plain text: one paragraph a line, no empty lines


def excerpt(folder: Path | None = None) -> tuple[Path, sources.Source]:
    """The excerpt's file and what a log says of it: in the gensim wheel, or in `folder` where one is given.

    Raises SetupError, saying what was expected, when it is not there or the package has another version.
    """
    if folder is None:
        return sources.package_file(PACKAGE, PACKAGE_VERSION, f"test/test_data/{FILE}")
    path = folder / FILE
    if not path.is_file():
        raise SetupError(f"--data-dir {folder.name}: no {FILE}; expected: that file, a MediaWiki XML dump")
    return path, sources.data_file(path, "wikipedia", "given by --data-dir", folder)


def articles(path: Path, min_characters: int = MIN_CHARACTERS) -> list[Article]:
    """Title and plain text of every article in the dump `path` (.bz2, or plain XML), sorted by title.

    Articles are the pages of namespace 0 that redirect nowhere and keep at least `min_characters` of plain text.
    Raises SetupError, naming the file, for one that is cut short or no MediaWiki dump, and for one without articles.
    """
    found = {}
    for title, markup in pages(path):
        text = plain(markup)
        if len(text) >= min_characters:
            found[title] = text
    if not found:
        raise SetupError(f"{path.name}: no article of {min_characters:,} characters or more in it")
    return sorted(found.items())


def pages(path: Path) -> Iterator[tuple[str, str]]:
    """Title and wiki markup of the pages of namespace 0 that are no redirects, in the dump's order. Streams."""
    try:
        with bz2.open(path, "rb") if path.suffix == ".bz2" else path.open("rb") as file:
            for _, element in ElementTree.iterparse(file):
                if _local(element.tag) != "page":
                    continue
                inside = {_local(part.tag): part.text or "" for part in element.iter()}
                if inside.get("ns") == "0" and "redirect" not in inside:
                    yield inside.get("title", ""), inside.get("text", "")
                element.clear()
    except (OSError, EOFError, ElementTree.ParseError) as error:
        raise SetupError(f"{path.name}: cannot be read as a MediaWiki dump: {error}") from None


def _local(tag: str) -> str:
    """An element's name without the namespace of the export format, whose version differs between dumps."""
    return tag.rpartition("}")[2]


# What is dropped with its content, and what is replaced by its visible part, in this order.
_REFERENCE = re.compile(r"<!--.*?-->|<ref\b[^<>]*/>|<ref\b[^<>]*>.*?</ref\s*>", re.S | re.I)
_DROPPED = re.compile(
    r"<(math|gallery|timeline|source|syntaxhighlight|imagemap|code|pre|sub|sup)\b[^<>]*>.*?</\1\s*>", re.S | re.I
)
_TAG = re.compile(r"</?[a-z][^<>]*>", re.I)
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")  # innermost; nested ones go from the inside out
_TABLE = re.compile(r"\{\|(?:(?!\{\||\|\}).)*\|\}", re.S)  # innermost
_ENDS = "see also|references|notes|footnotes|citations|bibliography|sources|further reading|external links"
_TAIL = re.compile(rf"^==\s*(?:{_ENDS})\s*==\s*$", re.M | re.I)
_HEADING = re.compile(r"^=+[^\n]*=+[ \t]*$", re.M)
_MEDIA = re.compile(r"\[\[\s*(?:file|image|category|media|[a-z]{2,3}(?:-[a-z]+)?)\s*:[^\[\]]*\]\]", re.I)
_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_ADDRESS = re.compile(r"\[(?:https?:|ftp:|//|mailto:)[^\s\]]*[ \t]*([^\]]*)\]")
_BARE_ADDRESS = re.compile(r"\bhttps?://\S+")
_QUOTES = re.compile(r"'{2,}")
_SWITCH = re.compile(r"__[A-Z]+__")
_LIST = re.compile(r"^[*#:;]+[ \t]*", re.M)
_TABLE_REST = re.compile(r"^[ \t]*(?:\{\||\|\}|\||!)[^\n]*$", re.M)  # rows of tables that never close
_BRACKET_REST = re.compile(r"(?<=\()[\s,;:]+")  # what a dropped template leaves behind an opening bracket
_EMPTY_BRACKETS = re.compile(r"\(\s*\)|\[\s*\]")
_BLANKS = re.compile(r"[^\S\n]+")
_LINE_BREAKS = re.compile(r"\s*\n\s*")


def plain(markup: str) -> str:
    """The running text of a page's wiki `markup`: a paragraph or list item a line, without empty lines.

    Templates, tables, references, formulas, pictures, headings and everything from "See also" or the references on are
    dropped; links and emphasis leave their visible text.
    """
    text = _DROPPED.sub(" ", _REFERENCE.sub("", markup))
    text = _repeated(_TEMPLATE, text)
    text = _repeated(_TABLE, text)
    text = _TAG.sub(" ", text)
    tail = _TAIL.search(text)
    text = text[: tail.start()] if tail else text
    previous = None
    while previous != text:  # a picture's caption may hold links: these first
        previous = text
        text = _LINK.sub(r"\1", _MEDIA.sub("", text))
    text = _ADDRESS.sub(r"\1", text)
    for pattern in (_BARE_ADDRESS, _QUOTES, _SWITCH, _HEADING, _LIST, _TABLE_REST):
        text = pattern.sub("", text)
    text = _EMPTY_BRACKETS.sub("", _BRACKET_REST.sub("", html.unescape(text)))
    text = _BLANKS.sub(" ", text)
    return _LINE_BREAKS.sub("\n", text).strip()


def _repeated(pattern: re.Pattern[str], text: str) -> str:
    """`text` without the matches of `pattern`, and without those that only arise when inner ones are gone."""
    count = 1
    while count:
        text, count = pattern.subn("", text)
    return text


def draw(title: str, parts: int) -> int:
    """0 ... parts - 1, by the MD5 of `title`: an article belongs to the same part in every dump and version."""
    return int(hashlib.md5(title.encode()).hexdigest(), 16) % parts


def split(found: Sequence[Article], parts: int, held_out: Sequence[int]) -> tuple[list[Article], list[Article]]:
    """Articles to train on, and those whose `draw` is in `held_out`; the order stays, no article is in both."""
    kept = [article for article in found if draw(article[0], parts) not in held_out]
    out = [article for article in found if draw(article[0], parts) in held_out]
    return kept, out
