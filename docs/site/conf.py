"""How Sphinx builds the site; `tools/site.py` gathers what it reads."""

from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, Name, Text

import sgnb

project = "sgnb"
author = "the authors of sgnb"
version = release = sgnb.__version__
html_title = f"sgnb {version}"

extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "index"
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "off"  # a notebook is stored with its outputs
nb_ipywidgets_js = {}  # and with pictures of its views: no page loads scripts from elsewhere
myst_enable_extensions = ["fieldlist"]
myst_heading_anchors = 4
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e63", "color-brand-content": "#0b6e63"},
    "dark_css_variables": {"color-brand-primary": "#5fd3c2", "color-brand-content": "#5fd3c2"},
    "top_of_page_buttons": [],
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"


class CellLexer(PythonLexer):
    """Python in which a line may be a magic."""

    name, aliases = "Python cell", ["python", "ipython", "ipython3"]
    tokens = {
        "root": [
            (
                r"(?m)^(%%?\w+)([^\n#]*)",
                lambda lexer, match, ctx=None: iter(
                    [
                        (match.start(1), Keyword.Namespace, match.group(1)),
                        (match.start(2), Name.Attribute, match.group(2)),
                    ]
                ),
            ),
            *PythonLexer.tokens["root"],
        ],
    }
    for _name, _rules in PythonLexer.tokens.items():
        tokens.setdefault(_name, _rules)


def setup(app):
    for name in CellLexer.aliases:
        app.add_lexer(name, CellLexer)
