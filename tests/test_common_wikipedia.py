"""Articles out of a made-up MediaWiki dump in the real layout; nothing of Wikipedia's text is here."""

import bz2
import hashlib

import pytest

from reference.common import wikipedia
from reference.common.errors import SetupError

NAMESPACE = "http://www.mediawiki.org/xml/export-0.10/"
PAGE = """  <page>
    <title>{title}</title>
    <ns>{ns}</ns>
    <id>{number}</id>{redirect}
    <revision>
      <id>9</id>
      <contributor><username>nobody</username></contributor>
      <text xml:space="preserve">{text}</text>
    </revision>
  </page>
"""


def page(title, text, ns=0, redirect=False):
    redirect = '\n    <redirect title="Elsewhere" />' if redirect else ""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return PAGE.format(title=title, ns=ns, number=len(title), redirect=redirect, text=text)


def dump(path, *pages):
    whole = f'<mediawiki xmlns="{NAMESPACE}" version="0.10">\n  <siteinfo><sitename>W</sitename></siteinfo>\n'
    path.write_bytes(bz2.compress((whole + "".join(pages) + "</mediawiki>\n").encode()))
    return path


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("'''Zub''' is a ''blue'' [[river|stream]] in [[Ruritania]].", "Zub is a blue stream in Ruritania."),
        ("One{{cite|a={{b|{{c}}}}}} two.", "One two."),
        ('A<ref name="x">{{cite}} no</ref> b<ref name="x" /> c<ref>no</ref>.', "A b c."),
        ('A<ref name="x" /> b <ref>no</ref>c.', "A b c."),
        ("A <!-- hidden\n\nlines --> b &nbsp;c &amp; d &lt; e", "A b c & d < e"),
        ("{| class=x\n| cell\n{|\n| inner\n|}\n|}\nText.", "Text."),
        ("[[File:a.png|thumb|A [[cat]] on a [[mat|rug]].]]Text.", "Text."),
        ("== One ==\nFirst.\n=== Two ===\n\n\n* item\n*# [[deeper]] item\n", "First.\nitem\ndeeper item"),
        ("Text.\n== See also ==\n* [[No]]\n== More ==\nno", "Text."),
        ("Text.\n==References==\n{{reflist}}", "Text."),
        ("See [http://a.b/c?d the page] and [https://e.f] or http://g.h/i now.", "See the page and or now."),
        ("Zub ({{ipa|z}}; born [[1 May]]) was ({{x}}) so.", "Zub (born 1 May) was so."),
        ("[[Category:Rivers]][[fr:Zub]]Text<br/>here.__NOTOC__", "Text here."),
        ("H<sub>2</sub>O and <math>x < y</math> end", "H O and end"),
        ("", ""),
    ],
)
def test_plain_text_by_hand(markup, text):
    assert wikipedia.plain(markup) == text


def test_articles_are_pages_of_the_main_namespace_that_lead_nowhere_else(tmp_path):
    path = dump(
        tmp_path / "x.xml.bz2",
        page("Zub", "Word & word. " * 100),
        page("Alb", "Over <b>there</b>. " * 100),
        page("Old name", "#REDIRECT [[Zub]] " + "x" * 2000, redirect=True),
        page("Talk:Zub", "no " * 1000, ns=1),
        page("Stub", "Too short."),
    )
    found = wikipedia.articles(path)
    assert [title for title, _ in found] == ["Alb", "Zub"]
    assert found[1][1] == ("Word & word. " * 100).strip()
    assert len(wikipedia.articles(path, min_characters=1)) == 3
    plain_file = tmp_path / "x.xml"
    plain_file.write_bytes(bz2.decompress(path.read_bytes()))
    assert wikipedia.articles(plain_file) == found


def test_what_cannot_be_read_is_named(tmp_path):
    whole = dump(tmp_path / "whole.bz2", page("Zub", "Word. " * 1000)).read_bytes()
    for name, content in (("cut.bz2", whole[: len(whole) // 2]), ("text.bz2", b"hello"), ("text.xml", b"<a><b></a>")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SetupError, match=f"{name}: cannot be read as a MediaWiki dump"):
            wikipedia.articles(tmp_path / name)
    with pytest.raises(SetupError, match="no article of 1,000 characters"):
        wikipedia.articles(dump(tmp_path / "empty.bz2", page("Zub", "Short.")))
    with pytest.raises(SetupError, match="expected: that file"):
        wikipedia.excerpt(tmp_path)


def test_the_split_is_by_the_hash_of_the_title():
    assert wikipedia.draw("Zub", 10) == int(hashlib.md5(b"Zub").hexdigest(), 16) % 10
    found = [(f"Title {number}", "text") for number in range(200)]
    kept, out = wikipedia.split(found, 10, (0, 3))
    assert sorted(kept + out, key=found.index) == found and not set(kept) & set(out)
    assert 20 < len(out) < 60
    assert wikipedia.split(found[50:], 10, (0, 3))[1] == [article for article in out if article in found[50:]]


def test_the_folder_is_read_instead_of_the_package(tmp_path):
    dump(tmp_path / wikipedia.FILE, page("Zub", "Word. " * 1000))
    path, source = wikipedia.excerpt(tmp_path)
    assert source.file == wikipedia.FILE and source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_installed_excerpt_has_103_articles():
    try:
        path, source = wikipedia.excerpt()
    except SetupError:
        pytest.skip("the gensim wheel with the Wikipedia excerpt is not installed")
    assert source.sha256 == "a53f4648dec40467ebdcbc7a1307eddb51fe6e28e9309f6ebde81ba0d04bea2d"
    found = wikipedia.articles(path)
    assert len(found) == 103 and len({title for title, _ in found}) == 103
    left = "".join(text for _, text in found)
    assert 2_700_000 < len(left) < 2_800_000
    assert sum(left.count(mark) for mark in ("[[", "]]", "{{", "}}", "==", "http", "<ref")) < 10
