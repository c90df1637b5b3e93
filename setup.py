"""How parallel_envs is built and what it needs."""

from pathlib import Path

from setuptools import Extension, find_packages, setup

ALE = "ale-py>=0.10.1,<1"
GYMNASIUM = "gymnasium>=0.29,<2"
PYTEST = "pytest>=8.2,<10"
RICH = "rich>=13.4,<16"
COLLECT = [RICH, "tensorboardX>=2.6.2.2,<3"]
BENCH = [RICH, "matplotlib>=3.8,<4"]

EXTRAS = {
    "collect": COLLECT,
    "bench": BENCH,
    "gymnasium": [GYMNASIUM],
    "atari": ["gymnasium>=1.0,<2", ALE],
    "mujoco": ["gymnasium[mujoco]>=1.0,<2"],
    "dm": ["dm-env>=1.6,<2", "dm-control>=1.0.24,<2", "bsuite>=0.3.5,<0.4"],
    "envpool": ["envpool>=1.0,<2"],
    "pettingzoo": ["pettingzoo>=1.24.4,<2"],
    "sb3": ["stable-baselines3>=2.4,<3"],
    "jax": ["jax>=0.4.34,<1"],
    "minari": ["minari>=0.5.2,<0.6"],
    "video": ["imageio[ffmpeg]>=2.34,<3"],
    # What its last release was made for; docs/guides/tf_agents.md has newer ways.
    "tf-agents": ["tf-agents>=0.19,<0.20", "tensorflow>=2.15,<2.16"],
    "reverb": ["tf-agents[reverb]>=0.19,<0.20"],
    "distributed": ["pyzmq>=26,<28", "msgpack>=1.0.8,<2"],
    "ray": ["ray>=2.40,<3"],
    "docs": [
        *COLLECT,
        GYMNASIUM,
        "furo>=2024.8.6",
        "myst-parser>=4,<6",
        PYTEST,
        "sphinx>=8,<10",
    ],
    "test": [
        *BENCH,
        *COLLECT,
        ALE,
        "build>=1.2,<2",
        "gymnasium[classic-control]>=0.29,<2",
        "hypothesis>=6.100,<7",
        "import-linter>=2.1,<3",
        "ipykernel>=6.29,<8",
        "jupyter-client>=8.6,<9",
        "nbclient>=0.10,<1",
        "nbformat>=5.10,<6",
        # For Gymnasium's preprocessing, which ours is compared with.
        "opencv-python-headless>=4.10,<6",
        "pyright[nodejs]>=1.1.400,<2",
        PYTEST,
        "pytest-timeout>=2.3,<3",
        "pytest-xdist>=3.6,<4",
        "ruff>=0.12,<1",
        "setuptools>=70.1",
    ],
}

setup(
    name="parallel-envs",
    version="0.1.0",
    description="Runs many reinforcement learning environments as one, in parallel.",
    long_description=Path(__file__).with_name("README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    # The folder specs/ ships as parallel_envs.specs. It is listed by name because an
    # sdist has no link parallel_envs/specs for find_packages to find.
    package_dir={"parallel_envs.specs": "specs"},
    packages=[
        "parallel_envs.specs",
        *find_packages(
            include=["parallel_envs", "parallel_envs.*"],
            exclude=["parallel_envs.specs", "parallel_envs.specs.*"],
        ),
    ],
    package_data={"parallel_envs": ["py.typed"]},
    # Optional: where there is no compiler, Python does the same, more slowly.
    ext_modules=[
        Extension(
            "parallel_envs.batch._row_loop",
            ["parallel_envs/batch/row_loop.c"],
            optional=True,
        ),
        Extension(
            "parallel_envs.process._bell_loop",
            ["parallel_envs/process/bell_loop.c"],
            optional=True,
        ),
    ],
    entry_points={"console_scripts": ["parallel-envs=parallel_envs.cli.main:run"]},
    python_requires=">=3.10",
    install_requires=[
        "absl-py>=2.0",
        "cloudpickle>=3.0",
        "dm-tree>=0.1.8",
        "numpy>=1.26",
    ],
    extras_require=EXTRAS,
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
