"""A complete environment, checked, and then collected from in parallel."""

import numpy as np

import parallel_envs as pe

ROWS, COLUMNS = 10, 5


class Catch(pe.PyEnvironment):
    """A ball falls down a board; a paddle at the bottom moves to catch it."""

    def __init__(self, seed=None):
        super().__init__()
        self._rng = np.random.default_rng(seed)

    def seed(self, seed):
        self._rng = np.random.default_rng(seed)

    def observation_spec(self):
        return {
            "ball": pe.BoundedArraySpec((2,), np.int32, 0, [ROWS - 1, COLUMNS - 1]),
            "paddle": pe.BoundedArraySpec((), np.int32, 0, COLUMNS - 1),
        }

    def action_spec(self):
        return pe.BoundedArraySpec((), np.int32, 0, 2, name="left_stay_right")

    def _reset(self):
        self._ball = np.array([0, self._rng.integers(COLUMNS)], np.int32)
        self._paddle = COLUMNS // 2
        return pe.restart(self._observation())

    def _step(self, action):
        self._ball[0] += 1
        self._paddle = np.clip(self._paddle + action - 1, 0, COLUMNS - 1)
        if self._ball[0] < ROWS - 1:
            return pe.transition(self._observation(), reward=0.0)
        caught = self._ball[1] == self._paddle
        return pe.termination(self._observation(), reward=1.0 if caught else -1.0)

    def _observation(self):
        return {"ball": self._ball.copy(), "paddle": np.int32(self._paddle)}


pe.validate_py_environment(Catch(), episodes=5)

with pe.ParallelPyEnvironment([Catch] * 8, num_workers=2) as env:
    env.seed(0)
    policy = pe.RandomPyPolicy(env.time_step_spec(), env.action_spec(), seed=0)
    returns = pe.metrics.EpisodeReturns(batch_size=8)
    pe.PyDriver(env, policy, [returns], max_episodes=100).run()

finished = returns.finished()
caught = sum(total > 0 for _, total in finished)
print(f"{caught} of {len(finished)} balls were caught by chance.")
