"""What stands for another environment: hands on all that is not its own business."""

from __future__ import annotations

from typing import Any


class Forwarding:
    """Hands on to `self._env` what concerns neither specs nor steps.

    The environment may be of another library, with methods of these names.
    """

    _env: Any

    def __getattr__(self, name: str) -> Any:
        """Returns a public attribute of the environment inside."""
        # `copy` and `pickle` ask for private names before there is an `_env`.
        if name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        return getattr(self._env, name)

    def wrapped_env(self) -> Any:
        """Returns the environment inside; it may stand for another one, too."""
        return self._env

    @property
    def batched(self) -> bool:
        return self._env.batched

    @property
    def batch_size(self) -> int | None:
        return self._env.batch_size

    def seed(self, seed: Any) -> Any:
        return self._env.seed(seed)

    def render(self, mode: str = "rgb_array") -> Any:
        return self._env.render(mode)

    def get_info(self) -> Any:
        return self._env.get_info()

    def get_state(self) -> Any:
        return self._env.get_state()

    def set_state(self, state: Any) -> None:
        self._env.set_state(state)

    def close(self) -> None:
        self._env.close()
