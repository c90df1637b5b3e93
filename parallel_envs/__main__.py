"""`python -m parallel_envs`, the same as the command `parallel-envs`."""

from parallel_envs.cli import main

if __name__ == "__main__":
    main.run()
