"""What an agent may read and write: decided by the workspace, whatever it was told."""

import os

import pytest

from enginewright.errors import UsageError
from enginewright.variation.agents import workspace as rules
from enginewright.variation.agents.edit_blocks import Edit, apply_edits
from enginewright.variation.agents.workspace import Workspace


@pytest.fixture
def library(tmp_path):
    folder = tmp_path / "library"
    folder.mkdir()
    for name in ("abi.rs", "naive_add.rs"):
        (folder / name).write_text(f"// {name}\n")
    return folder


@pytest.fixture
def made(tmp_path, library):
    return Workspace.make(
        tmp_path / "place", sorted(library.iterdir()), plan="{}", guide="How to.\n"
    )


def test_the_agents_files_are_its_own_and_the_librarys_are_for_reading(made):
    made.write("kernels/mine.rs", "// mine\n")
    assert made.own_files() == {"mine.rs": "// mine\n"}
    listed = {path: is_own for path, _, is_own in made.listing()}
    assert listed["kernels/mine.rs"] and listed["change.json"]
    assert not listed["kernels/abi.rs"] and not listed["plan.json"] and not listed["README.md"]
    assert made.read("kernels/abi.rs") == "// abi.rs\n"
    for path in ("kernels/abi.rs", "plan.json", "README.md"):
        with pytest.raises(UsageError, match="not yours to write"):
            made.write(path, "x")


@pytest.mark.parametrize(
    "path",
    ["../outside.rs", "kernels/../../outside.rs", "/etc/passwd", "kernels/./mine.rs", "mine.rs",
     "kernels/sub/mine.rs", "kernels\\mine.rs", "kernels/mine.rs\0", "kernels/Mine.rs",
     "kernels/mine.py", "kernels/.mine.rs", "", ".", "kernels", "kernels/", "evaluation/gates.py"],
)  # fmt: skip
def test_no_other_path_can_be_named(made, path):
    for use in (lambda: made.write(path, "x"), lambda: made.read(path)):
        with pytest.raises(UsageError, match="path"):
            use()


def test_links_are_not_followed(made, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    link = made.root / "kernels/mine.rs"
    link.symlink_to(secret)
    for look in (lambda: made.read("kernels/mine.rs"), made.own_files):
        with pytest.raises(UsageError):
            look()
    made.write("kernels/mine.rs", "// mine\n")
    assert secret.read_text() == "a secret" and not link.is_symlink()
    link.unlink()
    os.link(secret, link)
    with pytest.raises(UsageError, match="no plain file of one name"):
        made.own_files()


def test_a_folder_that_became_a_link_is_refused(made, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (made.root / "kernels").rename(elsewhere)
    (made.root / "kernels").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is a link"):
        made.write("kernels/mine.rs", "x")


def test_pipes_and_folders_are_no_files(made):
    os.mkfifo(made.root / "kernels/pipe.rs")
    with pytest.raises(UsageError):
        made.own_files()
    (made.root / "kernels/pipe.rs").unlink()
    (made.root / "kernels/folder.rs").mkdir()
    with pytest.raises(UsageError):
        made.own_files()


def test_sizes_and_counts_are_bounded_when_written_and_when_read(made, monkeypatch):
    with pytest.raises(UsageError, match="at most 262,144"):
        made.write("kernels/mine.rs", "x" * (rules.MOST_FILE_BYTES + 1))
    with pytest.raises(UsageError, match="NUL"):
        made.write("kernels/mine.rs", "a\0b")
    # A guest writes without us: a sparse file of 2 GB, bytes that are no text, too many.
    large = made.root / "kernels/large.rs"
    with large.open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(UsageError, match="more than 262,144 bytes"):
        made.own_files()
    large.write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(UsageError, match="UTF-8"):
        made.own_files()
    large.unlink()
    monkeypatch.setattr(rules, "MOST_FILES", 2)
    made.write("kernels/mine.rs", "1")
    with pytest.raises(UsageError, match="2 files already"):
        made.write("kernels/third.rs", "3")
    for name in ("one_more.rs", "and_another.rs"):
        (made.root / "kernels" / name).write_text("x")
    with pytest.raises(UsageError, match="3 files of yours"):
        made.own_files()


def test_together_the_files_are_bounded(made, monkeypatch):
    monkeypatch.setattr(rules, "MOST_BYTES", 100)
    made.write("kernels/one.rs", "x" * 40)
    with pytest.raises(UsageError, match="together"):
        made.write("kernels/two.rs", "x" * 80)
    (made.root / "kernels/two.rs").write_text("x" * 80)
    with pytest.raises(UsageError, match="expected at most 100"):
        made.own_files()


def test_freshening_keeps_the_agents_files_and_restores_the_librarys(made, library):
    made.write("kernels/mine.rs", "// mine\n")
    (made.root / "kernels/abi.rs").write_text("// forged\n")
    again = Workspace.make(made.root, sorted(library.iterdir()), plan='{"new": 1}', guide="")
    assert again.own_files() == {"mine.rs": "// mine\n"}
    assert again.read("kernels/abi.rs") == "// abi.rs\n"
    assert again.read("plan.json") == '{"new": 1}'


def test_edits_fit_exactly_one_place_each_or_nothing_is_changed():
    text = "one\ntwo\nthree\ntwo\n"
    assert apply_edits(text, [Edit("one", "1"), Edit("three", "3")], path="f") == "1\ntwo\n3\ntwo\n"
    with pytest.raises(UsageError, match="edit 2 of 2: `search` stands in 2 places"):
        apply_edits(text, [Edit("one", "1"), Edit("two", "2")], path="f")
    with pytest.raises(UsageError) as raised:
        apply_edits(text, [Edit("thre3", "x")], path="f")
    assert "stands nowhere" in raised.value.message and "line 3 is 'three'" in raised.value.hint
    with pytest.raises(UsageError, match="is empty"):
        apply_edits(text, [Edit("", "x")], path="f")
