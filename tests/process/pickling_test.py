from __future__ import annotations

import collections
import importlib
import importlib.util
import pathlib
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import types
from typing import Any

import cloudpickle as untyped_cloudpickle  # pyright: ignore[reportMissingTypeStubs]
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from parallel_envs.process import pickling

cloudpickle: Any = untyped_cloudpickle

READER = "import pickle, sys; value = pickle.load(sys.stdin.buffer); print(value())"


def result_elsewhere(function: Any, path: str | None = None) -> str:
    """Returns what a function returns in an interpreter that shares no module path."""
    program = subprocess.run(
        [sys.executable, "-c", READER],
        input=pickling.dumps(function),
        capture_output=True,
        cwd="/",
        env={} if path is None else {"PYTHONPATH": path},
    )
    assert program.returncode == 0, program.stderr.decode()
    return program.stdout.decode().strip()


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
)


@hypothesis.settings(max_examples=40)
@hypothesis.given(plain)
def test_plain_values_come_back(value: Any) -> None:
    assert pickle.loads(pickling.dumps(value)) == value


@hypothesis.given(
    npst.arrays(
        npst.boolean_dtypes() | npst.integer_dtypes() | npst.floating_dtypes(),
        npst.array_shapes(min_side=0),
    )
)
def test_arrays_come_back(array: np.ndarray[Any, Any]) -> None:
    copy = pickle.loads(pickling.dumps({"array": array}))["array"]

    assert copy.dtype == array.dtype
    np.testing.assert_array_equal(copy, array)


def test_arrays_of_objects_may_hold_what_travels_by_value() -> None:
    array = np.array([lambda: 5, None], dtype=object)

    assert pickle.loads(pickling.dumps(array))[0]() == 5


def test_subclasses_of_plain_types_keep_their_type() -> None:
    class Name(str):
        pass

    value: dict[str, Any] = {"name": Name("x"), "order": collections.OrderedDict(a=1)}

    copy = pickle.loads(pickling.dumps(value))

    assert type(copy["name"]).__name__ == "Name"
    assert type(copy["order"]) is collections.OrderedDict


def test_what_refers_to_itself_comes_back() -> None:
    value: list[Any] = []
    value.append(value)

    copy = pickle.loads(pickling.dumps(value))

    assert copy[0] is copy


def test_what_is_local_travels_by_value() -> None:
    offset = 40

    class Local:
        def __call__(self) -> int:
            return offset + 1

    def function() -> int:
        return offset + 2

    assert result_elsewhere(Local()) == "41"
    assert result_elsewhere(function) == "42"
    assert result_elsewhere(lambda: offset + 3) == "43"


def test_what_is_of_the_main_module_travels_by_value(tmp_path: pathlib.Path) -> None:
    root = pathlib.Path(pickling.__file__).parents[2]
    program = textwrap.dedent(
        """
        import sys
        from parallel_envs.process import pickling

        class Base:
            value = 5

        class Environment(Base):
            def __call__(self):
                return helper(self.value)

        def helper(value):
            return value + 1

        sys.stdout.buffer.write(pickling.dumps(Environment()))
        """
    )
    (tmp_path / "program.py").write_text(program)
    payload = subprocess.run(
        [sys.executable, tmp_path / "program.py"],
        stdout=subprocess.PIPE,
        check=True,
        env={"PYTHONPATH": str(root)},
    ).stdout

    assert pickle.loads(payload)() == 6


def made_module(name: str, text: str) -> types.ModuleType:
    """Makes a module that no import would find."""
    module = types.ModuleType(name)
    exec(textwrap.dedent(text), module.__dict__)
    return module


def test_a_module_made_at_run_time_travels_by_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = made_module(
        "made_at_run_time",
        """
        class Environment:
            def __call__(self):
                return helper()

        def helper():
            return 7
        """,
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)

    assert result_elsewhere(module.Environment()) == "7"
    assert result_elsewhere(lambda: module.Environment()()) == "7"
    assert cloudpickle.list_registry_pickle_by_value() == set()


def load_from(path: pathlib.Path, name: str) -> types.ModuleType:
    """Loads a file under a name that the module path does not lead to."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


TEXT = "class Environment:\n    def __call__(self):\n        return 8\n"


def test_a_package_loaded_from_a_file_travels_by_value_with_all_below_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package" / "inner").mkdir(parents=True)
    for folder in ("package", "package/inner"):
        (tmp_path / folder / "__init__.py").write_text(TEXT)
    (tmp_path / "package" / "inner" / "module.py").write_text(TEXT)
    names = ["unfound", "unfound.inner", "unfound.inner.module"]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    load_from(tmp_path / "package" / "__init__.py", "unfound")
    modules = [importlib.import_module(name) for name in names]

    results = [result_elsewhere(module.Environment()) for module in modules]

    assert results == ["8", "8", "8"]


def test_a_module_that_hides_another_of_its_name_travels_by_value(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found").mkdir()
    (tmp_path / "twice.py").write_text(TEXT)
    (tmp_path / "found" / "twice.py").write_text(TEXT.replace("8", "9"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "found"), *sys.path])
    monkeypatch.delitem(sys.modules, "twice", raising=False)
    module = load_from(tmp_path / "twice.py", "twice")

    assert result_elsewhere(module.Environment(), str(tmp_path / "found")) == "8"


@pytest.mark.parametrize("name", ["importable", "names.importable"])
def test_what_can_be_imported_travels_by_its_name(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(TEXT)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    module = importlib.import_module(name)

    payload = pickling.dumps(module.Environment())

    assert len(payload) < 100
    assert type(pickle.loads(payload)) is module.Environment
    assert result_elsewhere(module.Environment(), str(tmp_path)) == "8"


def test_a_module_that_left_the_module_path_travels_by_value(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaving.py").write_text(TEXT)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [str(tmp_path), *sys.path])
        module = importlib.import_module("leaving")
        assert len(pickling.dumps(module.Environment())) < 100

    assert result_elsewhere(module.Environment()) == "8"


class Odd:
    """Fails to be pickled in a way of its own."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [RuntimeError("no"), OSError("no"), KeyError("no")])
def test_whatever_pickling_raises_is_a_type_error(error: Exception) -> None:
    with pytest.raises(TypeError, match=r"cannot be pickled: .*no"):
        pickling.dumps([Odd(error)])


def test_what_cannot_be_pickled_is_named() -> None:
    values: list[Any] = [threading.Lock(), (i for i in ()), [1, {"a": sys.stdout}]]
    for value in values:
        with pytest.raises(TypeError, match=r"^cannot be pickled: "):
            pickling.dumps(value)


def test_what_pickles_something_itself_does_not_wait_for_itself() -> None:
    class Outer:
        def __reduce__(self) -> Any:
            return pickle.loads, (pickling.dumps(lambda: 5),)

    assert pickle.loads(pickling.dumps(Outer()))() == 5


def test_several_threads_may_pickle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = made_module("made_for_threads", TEXT)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    payloads: list[bytes] = []

    def work() -> None:
        payloads.extend(pickling.dumps(module.Environment()) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.delitem(sys.modules, module.__name__)

    assert [pickle.loads(payload)() for payload in payloads] == [8] * 200
    assert cloudpickle.list_registry_pickle_by_value() == set()


def test_the_library_travels_by_name_whatever_shadows_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("parallel_envs", "numpy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "random.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    payload = pickling.dumps((pickling.dumps, random.Random, np.linalg.norm))

    assert len(payload) < 500
    assert pickle.loads(payload) == (pickling.dumps, random.Random, np.linalg.norm)
