"""Rows of a batch as a state: variables, images, numbers of a rerun, and the same in the page."""

from __future__ import annotations

from sgnb import events
from sgnb.events import EventLog, encode
from sgnb.viz import LogState
from sgnb.viz.static.plain_text import run_text

from .make_log import Program, WordEngine
from .page import node

FILES = ("dom", "branch", "models", "reduce", "store", "draw", "text", "items", "pair", "rows")
STOPPED = "Aborted: the request was stopped"


def batch() -> EventLog:
    """Twenty rows with two variables; row 3 fails, row 15 is stopped, and a rerun runs both."""
    log = EventLog()
    engine = WordEngine(log)
    image = engine.item("image 4×4", 3)
    program = Program(engine, "r1", "ask", total=20)
    ends = {3: "ValueError: no", 15: STOPPED}
    for i in range(20):
        run_row(program, str(i), f"{image} {i}" if i == 2 else f"Row {i}", f" of {i}", ends.get(i))
    program.finish("error")
    rerun = Program(engine, "r2", "ask", total=2)
    log.emit(events.RowsNumbered("r2", (3, 15), "r1"))
    for branch, i in enumerate((3, 15)):
        run_row(rerun, str(branch), f"Row {i}", f" again {i}")
    rerun.finish()
    return log


def run_row(
    program: Program, branch: str, text: str, answer: str, error: str | None = None
) -> None:
    program.branch(branch)
    program.log.emit(events.ProgramCalled(program.run, branch, f"q={text!r}"))
    program.add(branch, text)
    list(program.gen(branch, "first", " a word"))
    program.add(branch, " and")
    list(program.gen(branch, "second", answer))
    program.end(branch, error or "")


def test_rows_have_all_variables_images_and_numbers() -> None:
    runs = LogState(batch().read().records).runs
    first, rerun = runs["r1"], runs["r2"]
    assert first.rows["15"].status == "stopped" and first.rows["3"].error == "ValueError: no"
    assert first.rows["15"].variables == {"first": " a word", "second": " of 15"}
    assert len(first.rows["2"].items) == 1 and first.rows["4"].items == []
    assert [row.number for row in rerun.rows.values()] == [3, 15] and rerun.earlier == "r1"
    assert rerun.is_batch
    text = run_text(first)
    assert "stopped: of 15" in text.replace("stopped:  of", "stopped: of")
    assert "error: ValueError: no" in text
    numbers = [line.split()[0] for line in run_text(rerun).splitlines() if "Row" in line]
    assert numbers[:2] == ["3", "15"]


def test_a_rerun_of_one_row_is_a_batch() -> None:
    log = EventLog()
    program = Program(WordEngine(log), "r2", "ask", total=1)
    log.emit(events.RowsNumbered("r2", (7,), "r1"))
    run_row(program, "0", "Row", " x")
    state = LogState(log.read().records).runs["r2"]
    assert state.is_batch and state.rows["0"].number == 7


def test_the_page_shows_a_rerun_with_the_rows_of_the_earlier_run() -> None:
    lines = [encode(record) for record in batch().read().records]
    script = """
      const store = newStore();
      store.add(parseLines(given.join("\\n")));
      const { state } = store, rerun = state.runs.get("r2");
      const rows = rowsOf(state, rerun);
      const texts = rows.map((row) =>
        textOf(textOfRow(state, state.runs.get(row.run), row).pieces));
      store.seek(given.length - 4);
      const now = rowsOf(store.shown(), store.shown().runs.get("r2"));
      return [rows.map(({ number, run, status, variables, items }) =>
        [number, run, status, variables, items.length]), texts, isBatch(rerun), now.length];"""
    rows, texts, is_batch, before = node(script, FILES, lines)
    assert [row[0] for row in rows] == list(range(20)) and is_batch and before == 20
    for number, run, status, variables, items in rows:
        again = number in (3, 15)
        assert (run, status) == ("r2" if again else "r1", "done")
        assert variables["second"] == (f" again {number}" if again else f" of {number}")
        assert items == (number == 2)
        # Rows behind the first branches have no kept text: the last request has the text.
        assert texts[number].endswith(f" a word and{variables['second']}")


def test_the_head_of_a_rerun_names_the_rows_of_the_batch() -> None:
    log = batch()
    third = Program(WordEngine(log), "r3", "ask", total=1)
    log.emit(events.RowsNumbered("r3", (15,), "r2"))
    run_row(third, "0", "Row 15", " third")
    third.finish()
    other = Program(WordEngine(log), "r4", "ask", total=2)
    log.emit(events.RowsNumbered("r4", (0, 1), ""))
    other.finish()
    lines = [encode(record) for record in log.read().records]
    script = """
      const state = newState();
      for (const record of parseLines(given.join("\\n"))) apply(state, record);
      const runs = [...state.runs.values()];
      return runs.map((run) => wordsOfMetrics(state, run).split(" · ").slice(0, 2));"""
    heads = node(script, (*FILES, "summary"), lines)
    assert heads[0][0] == "19/20 done"
    assert heads[1] == ["rerun of 2 of 20 rows", "2/2 done"]
    assert heads[2][0] == "rerun of 1 of 20 rows"
    assert heads[3][0] == "rerun of 2 rows"


def test_the_count_of_failed_rows_stands_once() -> None:
    def head(message: str, reported: bool) -> tuple[str, str]:
        log = EventLog()
        program = Program(WordEngine(log), "r1", "ask", total=3)
        for i in range(3):
            run_row(program, str(i), f"Row {i}", " x", "ValueError: no" if i else None)
        program.finish("error", message)
        records = log.read().records
        state = LogState(records).runs["r1"]
        state.reported = reported
        script = """
          const state = newState();
          for (const record of parseLines(given[0].join("\\n"))) apply(state, record);
          return notesOf(state, state.runs.get("r1"), given[1]);"""
        given = [list(map(encode, records)), reported]
        return run_text(state).splitlines()[0], node(script, (*FILES, "summary"), given)

    message = "2 of 3 programs failed, first: ValueError: no"
    for text in head(message, reported=False):
        assert message in text and "2 failed" not in text
    for text in (*head(message, reported=True), *head("3 of 3 things", reported=False)):
        assert "2 failed" in text
