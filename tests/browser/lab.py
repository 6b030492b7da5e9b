"""A JupyterLab with folders of its own, and notebooks in it driven through the page."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import nbformat
from playwright.sync_api import Locator, Page, Request, TimeoutError

from tests.browser.pages import SECONDS

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HARMLESS = (
    "favicon",
    "[LSP]",
    "Cannot read properties of null (reading 'kernel')",  # ipywidgets, without a kernel
    "Cannot read properties of undefined (reading 'schema')",  # Notebook 7, of its own settings
)
"""Parts of errors that say nothing about what is tested."""

PATIENT = """(timeout => {
    AbortSignal.timeout = (milliseconds) => timeout.call(AbortSignal, 100 * milliseconds);
})(AbortSignal.timeout)"""
"""On a busy machine, the module of a widget loads after the 2 s of anywidget, which then drops all
messages of the widget."""

SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    # On a busy machine, the kernel answers Tab after the usual second.
    "@jupyterlab/completer-extension:manager": {"providerTimeout": 100_000},
}


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


class Lab:
    """A server on a free local port, rooted at `root`; end it with `close`."""

    def __init__(self, root: Path) -> None:
        self.root, self.token = root, secrets.token_hex(16)
        self.work = root / "work"
        self.work.mkdir(parents=True)
        self._settings()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = (root / "lab.log").open("w")
        self._process = subprocess.Popen(
            self._command(),
            cwd=self.work,
            env=self._environment(),
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._wait()

    def _settings(self) -> None:
        for name, values in SETTINGS.items():
            package, plugin = name.split(":")
            path = self.root / "settings" / package / f"{plugin}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))

    def _command(self) -> list[str]:
        return [
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={self.token}",
            f"--ServerApp.root_dir={self.work}",
            # On a busy machine, a kernel answers after the usual 60 s, which is an error 500.
            "--MappingKernelManager.kernel_info_timeout=200",
            "--LabApp.expose_app_in_browser=True",
            "--JupyterNotebookApp.expose_app_in_browser=True",
            "--LabApp.news_url=",
            f"--LabApp.user_settings_dir={self.root / 'settings'}",
            f"--LabApp.workspaces_dir={self.root / 'workspaces'}",
        ]

    def _environment(self) -> dict[str, str]:
        own = {
            f"JUPYTER_{kind}_DIR": str(self.root / kind.lower())
            for kind in ("CONFIG", "DATA", "RUNTIME")
        }
        own["IPYTHONDIR"] = str(self.root / "ipython")
        here = str(Path(__file__).parents[2])
        paths = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        inherited = {name: value for name, value in os.environ.items() if name != "SGNB_STATIC"}
        return {**inherited, **own, "PYTHONPATH": paths}

    def _wait(self, seconds: float = 200) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/api?token={self.token}", timeout=20):
                    return
            except OSError:
                time.sleep(0.1)
        self.close()
        raise RuntimeError(f"JupyterLab did not start:\n{self.log_end()}")

    def log_end(self) -> str:
        """Return the end of the server's log, with the reason of an error 500."""
        return (self.root / "lab.log").read_text()[-4000:]

    def write(self, name: str, *cells: str) -> Path:
        """A notebook whose code cells are `cells`."""
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        book.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        path = self.work / name
        nbformat.write(book, path)
        return path

    def end_kernels(self) -> None:
        """End every kernel: a notebook of the same name would get the old kernel with its
        widgets."""
        for session in json.loads(self._ask("GET", "sessions")):
            self._ask("DELETE", f"sessions/{session['id']}")

    def _ask(self, method: str, place: str) -> bytes:
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(f"{self.url}/api/{place}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            content: bytes = answer.read()
        return content

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class Hold(NamedTuple):
    """A moment of a cell: before event number `number` of a kind, the run waits until the page has
    drawn `shown`, an expression over the numbers `now` of the cell's views and, of the hold
    before, `before`."""

    kind: str
    number: int
    shown: str


class Notebook:
    """One notebook in one page. Every console error and every request to another host is kept in
    `problems`."""

    def __init__(self, lab: Lab, page: Page) -> None:
        self.lab, self.page = lab, page
        self.problems: list[str] = []
        page.add_init_script(PATIENT)
        page.on(
            "console",
            lambda message: self._heard(message.text) if message.type == "error" else None,
        )
        page.on("pageerror", lambda error: self._heard(error.stack or error.message))
        page.on("request", self._requested)

    def _heard(self, error: str) -> None:
        if not any(part in error for part in HARMLESS):
            self.problems.append(f"console: {error}")

    def _requested(self, request: Request) -> None:
        place = urlsplit(request.url)
        if place.scheme in ("http", "https", "ws", "wss") and place.hostname != "127.0.0.1":
            self.problems.append(f"request to another host: {request.url}")

    def open(self, name: str) -> None:
        """Show the notebook `name`, and wait until its kernel has answered."""
        self._show(name, start=True)
        self.page.evaluate("""async () => {
            const { sessionContext } = window.jupyterapp.shell.currentWidget;
            await sessionContext.ready;
            await sessionContext.session.kernel.info;
        }""")

    def open_without_kernel(self, name: str) -> None:
        """End every kernel of the server, then show the notebook `name` and start none."""
        self._show(name, start=False)

    def _show(self, name: str, start: bool) -> None:
        self.page.goto(f"{self.lab.url}/lab?reset&token={self.lab.token}")
        self.page.wait_for_function("() => window.jupyterapp")
        self.page.evaluate(
            """async ({ name, start }) => {
            const app = window.jupyterapp;
            await app.restored;
            if (!start) await app.serviceManager.sessions.shutdownAll();
            const kernelPreference = {
                shouldStart: start, canStart: start, autoStartDefault: start,
            };
            const options = { path: name, factory: "Notebook", kernelPreference };
            const panel = await app.commands.execute("docmanager:open", options);
            await panel.context.ready;
        }""",
            {"name": name, "start": start},
        )
        shown = "name => window.jupyterapp.shell.currentWidget?.context?.path === name"
        self.page.wait_for_function(shown, arg=name)

    def start_cell(self, index: int) -> None:
        """Run cell `index` and return at once."""
        self.page.evaluate(
            """index => {
            window.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
            window.__run = { done: false };
            window.jupyterapp.commands.execute("notebook:run-cell")
                .then(() => { window.__run.done = true; });
        }""",
            index,
        )

    def execute(self, code: str) -> None:
        """Run `code` in the kernel, without a cell."""
        self.page.evaluate(
            """async code => {
            const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
            const reply = await kernel.requestExecute({ code, store_history: false }).done;
            if (reply.content.status !== "ok") throw new Error(reply.content.evalue);
        }""",
            code,
        )

    def watch_cell(self, index: int, *holds: Hold, seconds: float = 200) -> list[dict[str, Any]]:
        """Run cell `index` to its end. Return the numbers of its views as drawn at each hold."""
        folder = self._install([(hold.kind, hold.number) for hold in holds])
        self.page.evaluate("window.__old = new Set(Object.keys(window.__sgnb))")
        self.start_cell(index)
        drawn: list[dict[str, Any]] = []
        for number, hold in enumerate(holds):
            state = self.page.wait_for_function(
                f"""before => {{
                const views = Object.entries(window.__sgnb)
                    .filter(([name, {{ stats }}]) => !window.__old.has(name) && stats.frames);
                const now = Object.assign({{}}, ...views.map(([_, {{ stats }}]) => stats));
                return !window.__run.done && ({hold.shown}) && now;
            }}""",
                arg=drawn[-1] if drawn else {},
            )
            drawn.append(state.json_value())
            (folder / str(number)).touch()
        self.wait_cell(seconds)
        return drawn

    @contextmanager
    def held(self, kind: str, number: int) -> Iterator[None]:
        """Hold what runs next in the kernel before event number `number` of a kind, until the end
        of the block: no run ends before a slow page has shown the run."""
        folder = self._install([(kind, number)])
        try:
            yield
        finally:
            (folder / "0").touch()

    def _install(self, moments: list[tuple[str, int]]) -> Path:
        """Install holds, and return the folder for the files that release them."""
        folder = Path(tempfile.mkdtemp(dir=self.lab.root))
        self.execute(f"from tests.browser import holds; holds.install({moments}, {str(folder)!r})")
        return folder

    def interrupt(self) -> None:
        """Press the notebook's stop button, and wait until the kernel has the interrupt."""
        with self.page.expect_response(re.compile("/interrupt")):
            self.page.locator("[data-jp-item-name='interrupt'] jp-button").click()

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        """The outputs below cell `index`, which JupyterLab draws soon after the end of the cell."""
        return self.cell(index).locator(".jp-OutputArea").first

    def failed(self, index: int) -> bool:
        """Return whether cell `index` has an error, or other output on stderr."""
        found: bool = self.page.evaluate(
            """index => {
            const { model } = window.jupyterapp.shell.currentWidget.content.widgets[index];
            return model.outputs.toJSON().some(
                ({ output_type, name }) => output_type === "error" || name === "stderr");
        }""",
            index,
        )
        return found

    def wait_cell(self, seconds: float = 200) -> None:
        self.page.wait_for_function("window.__run.done", timeout=1000 * seconds)

    def run_cell(self, index: int, seconds: float = 200) -> None:
        self.start_cell(index)
        self.wait_cell(seconds)

    def stats(self, shown: str = "views.length === 1") -> list[dict[str, Any]]:
        """Return the numbers of the live views, in the order in which they were made, once all
        records in the page are drawn and `shown` holds, an expression over these `views`."""
        script = """() => Object.values(window.__sgnb).map(({ stats, store }) =>
            ({ ...stats, isDrawn: stats.records === store.records.length }))"""
        holds = f"views.every(view => view.isDrawn) && ({shown})"
        try:
            state = self.page.wait_for_function(
                f"() => {{ const views = ({script})(); return {holds} && views; }}"
            )
        except TimeoutError:
            raise AssertionError(f"{holds} is false: {self.page.evaluate(script)}") from None
        found: list[dict[str, Any]] = state.json_value()
        return found

    def save(self) -> None:
        self.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")

    def theme(self, name: str) -> None:
        self.page.evaluate(
            "name => window.jupyterapp.commands.execute('apputils:change-theme', { theme: name })",
            name,
        )
        shown = "name => document.body.dataset.jpThemeName === name"
        self.page.wait_for_function(shown, arg=name)
