"""What builds the site: broken links are found, and docstrings become reStructuredText."""

from docs._ext.public_names import as_rst
from docs._ext.whole_links import broken

PAGE = '<h1 id="top">A page</h1><a href="other.html#there">link</a><a href="#top">up</a>'


def site(folder, page=PAGE):
    """A site of two pages."""
    (folder / "index.html").write_text(page)
    (folder / "other.html").write_text('<p id="there">Other</p>')
    return broken(folder)


def test_a_whole_site_has_no_broken_links(tmp_path):
    assert site(tmp_path) == []


def test_a_missing_file_is_found(tmp_path):
    [found] = site(tmp_path, PAGE.replace("other.html", "another.html"))
    assert found == "index.html links to another.html#there: there is no such file"


def test_a_missing_anchor_is_found(tmp_path):
    [found] = site(tmp_path, PAGE.replace("#there", "#here"))
    assert found == "index.html links to other.html#here: there is no such anchor"


def test_what_comes_from_another_site_is_found(tmp_path):
    [found] = site(tmp_path, PAGE + '<script src="https://example.org/a.js"></script>')
    assert found == "index.html loads https://example.org/a.js from another site"


def test_code_in_docstrings_is_apart_from_letters():
    assert as_rst(["`A`: `B`s of `c`"]) == ["``A``: ``B``\\ s of ``c``"]


def test_formulas_and_lists_of_docstrings_are_translated():
    assert as_rst(["See:", "- $x^2$"]) == ["See:", "", "- :math:`x^2`"]
