"""What do copies of pictures cost, beside a plain copy of as many bytes?

32 environments in 2 processes return pictures of 84x84x4 bytes that they write anew.
Exits with 1 if views (`copy=False`) are dearer than copies, or if what copies add is
far from what `np.copyto` takes.

    python tests/benchmarks/copies.py
"""

from __future__ import annotations

import guarding
import numpy as np
import simulated

_NUM_ENVS = 32


def main() -> None:
    guard = guarding.Guard()
    pictures = np.ones((_NUM_ENVS, 84, 84, 4), np.uint8)
    place = np.ones_like(pictures)
    with (
        simulated.start("image", _NUM_ENVS, num_workers=2) as copies,
        simulated.start("image", _NUM_ENVS, num_workers=2, copy=False) as views,
    ):
        found = guarding.medians(
            {
                "step with copies": simulated.stepping(copies),
                "step with views": simulated.stepping(views),
                "np.copyto of the pictures": lambda: np.copyto(place, pictures),
            }
        )
    with_copies, with_views, plain = found.values()
    guard.check("views / copies", with_views / with_copies, most=1.15)
    # New memory for each batch is part of it, and caches that the workers have filled.
    guard.check("added / np.copyto", (with_copies - with_views) / plain, most=10)
    guard.exit()


if __name__ == "__main__":
    main()
