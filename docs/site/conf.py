"""Configuration of Sphinx; `tools/site.py` collects the sources."""

from pygments.lexer import bygroups, inherit
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, Name

import sgnb

project = "sgnb"
author = "the authors of sgnb"
version = release = sgnb.__version__
html_title = f"sgnb {version}"

extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "index"
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "off"  # notebooks are stored with outputs
nb_code_prompt_show = nb_code_prompt_hide = "Solution"  # folded cells: solutions only
nb_ipywidgets_js = {}  # notebooks have pictures: no page loads remote scripts
myst_enable_extensions = ["attrs_inline", "fieldlist"]
myst_heading_anchors = 4
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

smartquotes = False  # keep -- outside of code

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_logo = html_favicon = "static/logo.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e63", "color-brand-content": "#0b6e63"},
    "dark_css_variables": {"color-brand-primary": "#5fd3c2", "color-brand-content": "#5fd3c2"},
    "sidebar_hide_name": False,
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"


class CellLexer(PythonLexer):
    """Python with magic lines."""

    name, aliases = "Python cell", ("python", "ipython", "ipython3")
    tokens = {  # noqa: RUF012
        "root": [(r"^(%%?\w+)([^\n]*)", bygroups(Keyword.Namespace, Name.Attribute)), inherit]
    }


def setup(app):
    for name in CellLexer.aliases:
        app.add_lexer(name, CellLexer)
