"""Sphinx: the site of these pages (`make docs`). No network, no fonts or scripts of others."""

project = "Tidegate"
root_doc = "contents"
extensions = ["myst_parser"]
myst_heading_anchors = 3
highlight_language = "none"
html_theme = "alabaster"
html_title = project
html_theme_options = {"description": "Kafka ⇄ Parquet, provably once", "page_width": "72rem"}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
html_show_sourcelink = False
