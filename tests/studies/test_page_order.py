"""Report pages: the table ranks targets, the sections below keep the order that was given."""

from aide.studies.report import _errors, _order


def test_sections_keep_the_order_given():
    errors = {"headline": "Fine.", "grid": None, "rows": [], "notes": [], "figures": []}
    parts = {"far <1>": {"errors": errors}, "near": {"errors": errors}}
    assert "were given: far &lt;1&gt;, near." in _order(parts, is_ranked=True)
    shown = "".join(_errors(parts))
    assert shown.index("Errors of far") < shown.index("Errors of near")
    assert _order({"near": {}}, is_ranked=True) == ""  # a single target has no order
    assert _order(parts, is_ranked=False) == ""
