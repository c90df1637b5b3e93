"""Loops that step an environment with a policy and tell observers what happened."""

from parallel_envs.drivers.actor import Actor as Actor
from parallel_envs.drivers.async_driver import AsyncDriver as AsyncDriver
from parallel_envs.drivers.driver import Driver as Driver
from parallel_envs.drivers.py_driver import PyDriver as PyDriver
