"""How cells of pages show figures: as drawings that stay sharp at every size."""

c = get_config()  # noqa: F821
c.InteractiveShellApp.matplotlib = "inline"  # figures of results are shown, too
c.InlineBackend.figure_formats = {"svg"}
c.InlineBackend.rc = {"figure.figsize": (7.0, 4.0), "svg.hashsalt": "aide"}
