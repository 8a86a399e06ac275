"""Setup on a machine that does not fit: one line that says what to do, exit code 2, no traceback.

Pythons, Javas, pip and uv are played by scripts in directories of the test.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.specifiers import SpecifierSet

from support.doc_pages import page
from tidegate_local import bootstrap, machine
from tidegate_local.machine import SetupError

SCRIPTS = [Path(bootstrap.__file__), Path(machine.__file__)]
RUNNING = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a shell script: `program("bin/java", "echo …")`."""

    def write(name: str, script: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return write


def java(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2025-01-01' >&2"""


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2"])
def test_javas_that_fit(program: Callable[[str, str], Path], version: str) -> None:
    machine.check_java({"PATH": str(program("bin/java", java(version)).parent)})


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (java("1.8.0_392"), "is Java 8: install Java 17 or 21"),
        (java("11.0.2"), "is Java 11: install Java 17 or 21"),
        (java("25"), "is Java 25: install Java 17 or 21"),
        ("exit 127", "does not run: install Java 17 or 21"),
        ("echo gibberish", "does not run: install Java 17 or 21"),
    ],
)
def test_javas_that_do_not_fit(
    program: Callable[[str, str], Path], script: str, complaint: str
) -> None:
    found = program("bin/java", script)
    with pytest.raises(SetupError, match=f"^{re.escape(str(found))} {complaint}"):
        machine.check_java({"PATH": str(found.parent)})


def test_java_home_beats_the_path(program: Callable[[str, str], Path]) -> None:
    """As it does for Spark: a good Java on the PATH does not help."""
    good, old = program("bin/java", java("17")), program("old/bin/java", java("11"))
    with pytest.raises(SetupError, match="old/bin/java is Java 11"):
        machine.check_java({"PATH": str(good.parent), "JAVA_HOME": str(old.parents[1])})
    with pytest.raises(SetupError, match="no java in JAVA_HOME, /nowhere: install Java 17 or 21"):
        machine.check_java({"PATH": str(good.parent), "JAVA_HOME": "/nowhere"})
    with pytest.raises(SetupError, match="no java on the PATH"):
        machine.check_java({"PATH": "/nowhere"})


def answers(path: str, version: str, can_make_venv: bool = True) -> str:
    return f"printf '%s\\n' {path} {version.replace('.', ' ')} {can_make_venv}"


def test_a_python_is_found_behind_shims_that_fail(
    program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running one is too old; the first python3.12 is a shim that only complains."""
    monkeypatch.setattr(sys, "executable", str(program("own/python3", answers("/own", "3.8"))))
    shims = program("shims/python3.12", "echo 'python3.12: command not found' >&2; exit 127").parent
    real = program("real/python3.12", answers("/real/python3.12", "3.12")).parent
    found = machine.find_python({"PATH": f"{shims}:{real}"})
    assert found == ("/real/python3.12", (3, 12), True)


def test_a_fitting_python_that_runs_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.find_python({"PATH": ""}).version == sys.version_info[:2]


def test_no_python_that_fits(
    program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = program("own/python3", answers("/own", "3.14"))
    monkeypatch.setattr(sys, "executable", str(own))
    complaint = f"^this is Python {RUNNING}, and none of python3.12, python3.11, python3.13 on"
    with pytest.raises(SetupError, match=complaint):
        machine.find_python({"PATH": str(own.parent)})


def test_the_pythons_are_those_of_the_package() -> None:
    form = tomllib.loads(page("pyproject.toml"))["project"]
    wanted = SpecifierSet(form["requires-python"])
    assert {(3, n) for n in range(8, 30) if f"3.{n}" in wanted} == set(machine.PYTHONS)


def test_a_python_without_venv(
    program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Debian has it until one more package is installed."""
    bare = answers("/usr/bin/python3.11", "3.11", can_make_venv=False)
    monkeypatch.setattr(sys, "executable", str(program("own/python3", bare)))
    complaint = "^/usr/bin/python3.11 lacks venv or ensurepip: install python3.11-venv"
    with pytest.raises(SetupError, match=complaint):
        machine.find_python({"PATH": ""})


def test_another_system(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert bootstrap.main() == 2
    assert capsys.readouterr().err == (
        "tidegate: this system is darwin: Linux is needed, a container will do\n"
    )


def test_a_short_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_500_000_000))
    with pytest.raises(SetupError, match=r"^1\.5 GB are free in .*, 4 GB are needed"):
        machine.check_disk(tmp_path)


def test_the_script_by_itself_says_one_line(
    program: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """Run it as make does, in a checkout with nothing installed and an old Java."""
    checkout = tmp_path / "checkout"
    package = checkout / "include" / "tidegate_local"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for script in SCRIPTS:
        shutil.copy(script, package)
    (checkout / "requirements.txt").touch()
    (checkout / "pyproject.toml").touch()
    path = program("bin/java", java("11")).parent
    run = subprocess.run(
        [sys.executable, "-m", "tidegate_local.bootstrap"],
        env={"PATH": str(path), "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    complaint = (
        f"tidegate: {path}/java is Java 11: install Java 17 or 21, or set JAVA_HOME to one\n"
    )
    assert (run.returncode, run.stdout, run.stderr) == (2, "", complaint)
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_old_python_can_read_the_script(script: Path) -> None:
    """Or it would show a syntax error where the one line should be."""
    compile_as_38 = "import ast, sys; ast.parse(open(sys.argv[1]).read(), feature_version=(3, 8))"
    subprocess.run([sys.executable, "-c", compile_as_38, script], check=True)


@pytest.fixture
def checkout(
    tmp_path: Path, program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A checkout in which venv, pip, uv and the jars are scripts; `calls` lists their calls.

    A file `fail` or `uv-fails` next to it holds the error that pip or uv is to end with.
    """
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "requirements.txt").write_text(
        "pandas==1 \\\n    --hash=sha256:00\n"
        "setuptools==2 \\\n    --hash=sha256:11\nwheel==3\nuv==4\n"
    )
    (root / "pyproject.toml").write_text("[project]\n")
    python = program(
        "python",
        f"""
        case "$*" in
        *"import sys, importlib"*) {answers(str(tmp_path / "python"), "3.12")} ;;
        "-m venv "*)
            mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo version = 3.12 > "$3/pyvenv.cfg" ;;
        *importlib.metadata*) echo 4.0.4 4.0.4 ;;
        *jars.lock_paths*) [ -e {tmp_path}/jars ] ;;
        *jars.ensure_jars*) echo jars >> {tmp_path}/calls; touch {tmp_path}/jars ;;
        *"pip config list"*) cat {tmp_path}/pip.conf ;;
        *"pip install"*)
            for last; do :; done; echo "pip $(basename "$last")" >> {tmp_path}/calls
            cp {tmp_path}/uv "$(dirname "$0")/uv"
            [ ! -e {tmp_path}/fail ] || {{ cat {tmp_path}/fail; exit 1; }} ;;
        esac""",
    )
    program(
        "uv",
        f"""
        for last; do :; done; echo "uv $(basename "$last")" >> {tmp_path}/calls
        env | grep -e ^UV_ -e ^SSL_ | sort > {tmp_path}/settings
        [ ! -e {tmp_path}/uv-fails ] || {{ cat {tmp_path}/uv-fails; exit 2; }}""",
    )
    (tmp_path / "pip.conf").touch()
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(bootstrap, "ROOT", root)
    monkeypatch.setattr(machine, "DISK", 0)
    monkeypatch.setenv("JAVA_HOME", str(program("jdk/bin/java", java("17")).parents[1]))
    return root


def calls(checkout: Path) -> list[str]:
    """Return what was asked since the last time: for pip, its last argument."""
    log = checkout.parent / "calls"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


WHOLE = ["pip uv.lock", "uv backend.lock", "uv requirements.txt", "uv checkout", "jars"]


def test_setup_does_what_is_missing_and_nothing_twice(checkout: Path) -> None:
    """All at first, then nothing; only the project when only pyproject.toml has changed."""
    assert bootstrap.main() == 0
    assert calls(checkout) == WHOLE
    backend = (checkout / ".venv" / "backend.lock").read_text()
    assert backend == "setuptools==2 \\\n    --hash=sha256:11\nwheel==3\n"
    assert (checkout / ".venv" / "uv.lock").read_text() == "uv==4\n"

    assert bootstrap.main() == 0
    assert calls(checkout) == []

    (checkout / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert bootstrap.main() == 0
    assert calls(checkout) == ["uv checkout"]

    (checkout.parent / "jars").unlink()
    assert bootstrap.main() == 0
    assert calls(checkout) == ["jars"]


@pytest.mark.parametrize("function", ["lock_paths", "ensure_jars"])
def test_the_jars_are_found_by_what_setup_runs(function: str) -> None:
    """The real packages, not the scripts that play them in the other tests."""
    subprocess.run([sys.executable, "-c", bootstrap.RUN_JARS.format(function)], check=True)


def test_a_changed_lock_begins_afresh(checkout: Path) -> None:
    """PySpark and its client share files: an upgrade in place would leave holes."""
    assert bootstrap.main() == 0
    old = checkout / ".venv" / "old-package"
    old.touch()
    (checkout / "requirements.txt").write_text("pandas==2\n")
    calls(checkout)
    assert bootstrap.main() == 0
    assert calls(checkout) == WHOLE[:4]
    assert not old.exists()


def test_a_changed_lock_waits_for_what_runs(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A local stack's processes would find other packages below them, or none."""
    assert bootstrap.main() == 0
    service = checkout / ".venv/bin/airflow"
    service.write_text("#!/bin/sh\necho up\nread line\n")
    service.chmod(0o755)
    (checkout / "requirements.txt").write_text("pandas==2\n")
    calls(checkout)
    with subprocess.Popen([service], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout
        assert running.stdout.readline() == b"up\n"
        assert bootstrap.main() == 2
        complaint = capsys.readouterr().err
        assert f"(pid {running.pid}): stop them first" in complaint
        assert "tidegate local down" in complaint
        assert service.exists()
    assert calls(checkout) == []
    assert bootstrap.main() == 0
    assert calls(checkout) == WHOLE[:4]


def test_a_python_that_was_removed_is_replaced(checkout: Path) -> None:
    """The one that .venv was made with: an upgrade of the system has taken it away."""
    assert bootstrap.main() == 0
    calls(checkout)
    (checkout / ".venv/bin/python").unlink()
    (checkout / ".venv/bin/python").symlink_to(checkout.parent / "gone/python3.11")
    assert bootstrap.main() == 0
    assert calls(checkout) == WHOLE[:4]


def test_an_install_that_was_killed_is_made_again(checkout: Path) -> None:
    """What it left looks whole to pip, so it must not stay."""
    half = checkout / ".venv" / "lib" / "half-a-package"
    half.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", checkout / ".venv"], check=True)
    (checkout / ".venv" / "installing").touch()
    assert bootstrap.main() == 0
    assert calls(checkout) == WHOLE
    assert not half.exists()
    assert not (checkout / ".venv" / "installing").exists()


def test_an_environment_that_others_made_is_completed(checkout: Path) -> None:
    venv = checkout / ".venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    (venv / "theirs").touch()
    assert bootstrap.main() == 0
    assert calls(checkout) == WHOLE
    assert (venv / "theirs").exists()


@pytest.mark.parametrize(
    ("file", "output", "line"),
    [
        (
            "fail",
            "WARNING: Retrying after connection broken by 'NewConnectionError(…)'\n"
            "ERROR: Could not find a version that satisfies the requirement wheel==3\n",
            "tidegate: no network: packages cannot be fetched",
        ),
        (
            "fail",
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n"
            "    pandas==1:\n        Expected sha256 00\n",
            "tidegate: pip failed: THESE PACKAGES DO NOT MATCH THE HASHES",
        ),
        (
            "fail",
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on"
            " device\n",
            "tidegate: the disk is full",
        ),
        (
            "uv-fails",
            "error: Request failed after 3 retries in 4.3s\n"
            "  cause: Failed to fetch: https://index.invalid/simple/pandas/\n"
            "  cause: client error (Connect)\n  cause: dns error\n",
            "tidegate: no network: packages cannot be fetched",
        ),
        (
            "uv-fails",
            "Resolved 1 package in 178ms\nerror: Failed to download `pandas==1`\n"
            "  cause: Hash mismatch for `pandas==1`\n\n         Expected:\n           sha256:00\n",
            "tidegate: uv failed: Failed to download `pandas==1`: Hash mismatch for `pandas==1` (",
        ),
        (
            "uv-fails",
            "error: Failed to install: pandas-1-py3-none-any.whl (pandas==1)\n"
            "  cause: No space left on device (os error 28)\n",
            "tidegate: the disk is full",
        ),
    ],
)
def test_a_failing_installer_is_one_line_and_the_next_run_repairs(
    checkout: Path, capsys: pytest.CaptureFixture[str], file: str, output: str, line: str
) -> None:
    (checkout.parent / file).write_text(output)
    assert bootstrap.main() == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(line)
    assert complaint.count("\n") == 1

    (checkout.parent / file).unlink()
    calls(checkout)
    assert bootstrap.main() == 0
    assert calls(checkout) == WHOLE


def test_uv_fetches_from_where_pip_would(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment beats pip's file; what uv's own environment says beats both."""
    for name in [name for name in os.environ if name.startswith(("UV_", "SSL_"))]:
        monkeypatch.delenv(name)
    (checkout.parent / "pip.conf").write_text(
        ":env:.index-url='https://mirror/simple'\n:env:.cert='/etc/ca.pem'\n"
        "global.extra-index-url='\\nhttps://a/simple\\nhttps://b/simple'\n"
        "global.index-url='https://other/simple'\nglobal.find-links='/opt/wheels'\n"
    )
    monkeypatch.setenv("UV_FIND_LINKS", "/wheels")
    assert bootstrap.main() == 0
    assert (checkout.parent / "settings").read_text().splitlines() == [
        "SSL_CERT_FILE=/etc/ca.pem",
        "UV_DEFAULT_INDEX=https://mirror/simple",
        "UV_FIND_LINKS=/wheels",
        "UV_INDEX= https://a/simple https://b/simple",
    ]


def test_unequal_pysparks_are_refused(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither pip nor `pip check` notices; UDFs would then die with a Py4J error."""
    python = checkout.parent / "python"
    python.write_text(python.read_text().replace("4.0.4 4.0.4", "4.0.4 4.0.3"))
    assert bootstrap.main() == 2
    assert "pyspark and pyspark-client differ (4.0.4 and 4.0.3)" in capsys.readouterr().err
    assert not (checkout / ".venv" / "tidegate-setup.json").exists()


def test_two_setups_at_once_are_one_after_the_other(checkout: Path) -> None:
    codes: list[int] = []
    setups = [threading.Thread(target=lambda: codes.append(bootstrap.main())) for _ in range(2)]
    for setup in setups:
        setup.start()
    for setup in setups:
        setup.join()
    assert codes == [0, 0]
    assert calls(checkout) == WHOLE
