"""Environments by name. Nothing of theirs is imported before a name asks for it."""

from parallel_envs.suites.naming import constructor as constructor
from parallel_envs.suites.naming import load as load
