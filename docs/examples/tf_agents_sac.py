"""SAC of TF-Agents balances a pole in MuJoCo, over a batch of ours or of TF-Agents."""

import argparse
import functools
import json
import time

import gymnasium
import numpy as np
import tensorflow as tf
from tf_agents.agents.ddpg import critic_network
from tf_agents.agents.sac import sac_agent, tanh_normal_projection_network
from tf_agents.drivers import dynamic_step_driver
from tf_agents.environments import parallel_py_environment, tf_py_environment
from tf_agents.networks import actor_distribution_network
from tf_agents.policies import py_tf_eager_policy, random_tf_policy
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.system import system_multiprocessing
from tf_agents.utils import common

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter

NUM_ENVS = 8
STEPS = 8  # Of each environment, between updates.
GRADIENT_STEPS = 64  # Of an update.
BATCH_SIZE = 64  # Of a gradient step.
RANDOM_STEPS = 1_000  # Of all rows, before the first update.
UPDATES_PER_EVALUATION = 20
EPISODES = 20  # Of an evaluation.


def make_batch(kind, make_env):
    if kind == "parallel_envs":
        return adapter.ParallelPyEnvironment([make_env] * NUM_ENVS, num_workers=2)
    # Without this, or `handle_main`, TF-Agents starts no process.
    system_multiprocessing.enable_interactive_mode()

    def make_env_for_tf_agents():
        return adapter.to_tf_agents(make_env())

    return parallel_py_environment.ParallelPyEnvironment(
        [make_env_for_tf_agents] * NUM_ENVS
    )


def make_agent(time_step_spec, action_spec):
    observation_spec, hidden = time_step_spec.observation, (128, 128)
    agent = sac_agent.SacAgent(
        time_step_spec,
        action_spec,
        critic_network=critic_network.CriticNetwork(
            (observation_spec, action_spec), joint_fc_layer_params=hidden
        ),
        actor_network=actor_distribution_network.ActorDistributionNetwork(
            observation_spec,
            action_spec,
            fc_layer_params=hidden,
            continuous_projection_net=tanh_normal_projection_network.TanhNormalProjectionNetwork,
        ),
        actor_optimizer=tf.keras.optimizers.Adam(1e-3),
        critic_optimizer=tf.keras.optimizers.Adam(1e-3),
        alpha_optimizer=tf.keras.optimizers.Adam(1e-3),
        target_update_tau=0.005,
        gamma=0.99,
        td_errors_loss_fn=tf.math.squared_difference,
    )
    agent.initialize()
    return agent


def mean_return(env, policy):
    """Returns the mean over one episode of each row."""
    time_step = env.reset()
    returns, running = np.zeros(env.batch_size), np.ones(env.batch_size, bool)
    while running.any():
        time_step = env.step(policy.action(time_step).action)
        returns[running] += time_step.reward[running]
        running &= ~time_step.is_last()
    return returns.mean()


def train(flags, env, eval_env):
    """Yields a point of the curve for each evaluation."""
    started = time.monotonic()
    tf_env = tf_py_environment.TFPyEnvironment(env)
    agent = make_agent(tf_env.time_step_spec(), tf_env.action_spec())
    buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
        agent.collect_data_spec, NUM_ENVS, max_length=flags.max_steps // NUM_ENVS
    )
    driver = dynamic_step_driver.DynamicStepDriver(
        tf_env, agent.collect_policy, [buffer.add_batch], num_steps=NUM_ENVS * STEPS
    )
    random_policy = random_tf_policy.RandomTFPolicy(
        tf_env.time_step_spec(), tf_env.action_spec()
    )
    dynamic_step_driver.DynamicStepDriver(
        tf_env, random_policy, [buffer.add_batch], num_steps=RANDOM_STEPS
    ).run()
    policy = py_tf_eager_policy.PyTFEagerPolicy(
        agent.policy, use_tf_function=True, batch_time_steps=False
    )
    dataset = buffer.as_dataset(sample_batch_size=BATCH_SIZE, num_steps=2)
    options = tf.data.Options()
    options.autotune.enabled = False  # It reads ahead, so that no run repeats another.
    samples = iter(dataset.with_options(options))
    collect, update = common.function(driver.run), common.function(agent.train)

    num_updates = (flags.max_steps - RANDOM_STEPS) // (NUM_ENVS * STEPS)
    collecting = 0.0
    for updates in range(1, num_updates + 1):
        since = time.monotonic()
        collect()
        collecting += time.monotonic() - since
        for _ in range(GRADIENT_STEPS):
            experience, _ = next(samples)
            # What leads from one episode to the next, which DQN leaves out by itself.
            weights = tf.cast(~experience.is_boundary()[:, 0], tf.float32)
            update(experience, weights)
        if updates % UPDATES_PER_EVALUATION == 0 or updates == num_updates:
            yield {
                "steps": RANDOM_STEPS + updates * NUM_ENVS * STEPS,
                "mean_return": mean_return(eval_env, policy),
                "seconds": time.monotonic() - started,
                "seconds_collecting": collecting,
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    batches = ["parallel_envs", "tf_agents"]
    parser.add_argument("--batch", choices=batches, default="parallel_envs")
    parser.add_argument("--env", default="InvertedPendulum-v5", help="of Gymnasium")
    parser.add_argument("--goal", type=float, default=950, help="mean return to end at")
    parser.add_argument("--max_steps", type=int, default=60_000, help="of all rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default="sac.jsonl", help="gets a line for a run")
    flags = parser.parse_args()

    tf.config.threading.set_intra_op_parallelism_threads(1)  # The networks are small.
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(flags.seed)
    make_env = functools.partial(gymnasium.make, flags.env)
    # Cheap environments are evaluated in this process, without asking another.
    eval_env = adapter.BatchedPyEnvironment([make_env() for _ in range(EPISODES)])
    with make_batch(flags.batch, make_env) as env, eval_env:
        env.seed(pe.spread_seeds(flags.seed, NUM_ENVS))
        eval_env.seed(pe.spread_seeds(flags.seed + 1, EPISODES))
        curve = []
        for point in train(flags, env, eval_env):
            print(", ".join(f"{k}: {v:.6g}" for k, v in point.items()), flush=True)
            curve.append(point)
            if point["mean_return"] >= flags.goal:
                print("The goal is reached.")
                break
        else:
            print(f"The goal was not reached in {flags.max_steps} steps.")
    with open(flags.output, "a") as file:
        run = {"batch": flags.batch, "seed": flags.seed, "curve": curve}
        print(json.dumps(run), file=file)


if __name__ == "__main__":
    main()
