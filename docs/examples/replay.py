"""Collects into a replay buffer, keeps it on disk, and reads it in three ways."""

import tempfile

import parallel_envs as pe

NUM_ENVS = 4
CONSTRUCTOR = pe.suites.constructor("CartPole-v1", max_episode_steps=50)

buffer = pe.replay.ReplayBuffer(capacity=500, num_streams=NUM_ENVS, seed=0)
with pe.ParallelPyEnvironment([CONSTRUCTOR] * NUM_ENVS) as env:
    policy = pe.RandomPyPolicy(env.time_step_spec(), env.action_spec(), seed=0)
    pe.PyDriver(env, policy, [buffer.add_batch], max_steps=1000).run()
print(f"{len(buffer)} rows of {buffer.num_episodes()} whole episodes")

with tempfile.TemporaryDirectory() as folder:
    buffer.save(f"{folder}/replay")
    restored = pe.replay.ReplayBuffer(capacity=500, num_streams=NUM_ENVS, seed=0)
    restored.load(f"{folder}/replay")

# Sequences that never cross the end of an episode: leaves [B, T, ...].
sequences = restored.sample(batch_size=32, num_steps=8)
print("sequences:", sequences.observation.shape)

# What an n-step learner needs: leaves [B, ...].
items = restored.sample_nstep(batch_size=32, n=3, gamma=0.99)
print("3-step returns:", items["return"].mean())

# Whole episodes, in the order they were stored: leaves [T, ...].
lengths = [len(episode.reward) for episode in restored.iterate_episodes()]
print("longest episode:", max(lengths), "rows")
