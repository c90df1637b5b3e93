"""PPO of TF-Agents learns CartPole-v1, over a batch of ours or over TF-Agents' own."""

import argparse
import json
import time

import gymnasium
import numpy as np
import tensorflow as tf
from tf_agents.agents.ppo import ppo_clip_agent
from tf_agents.drivers import dynamic_step_driver
from tf_agents.environments import parallel_py_environment, tf_py_environment
from tf_agents.networks import actor_distribution_network, value_network
from tf_agents.policies import py_tf_eager_policy
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.system import system_multiprocessing
from tf_agents.utils import common

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter

NUM_ENVS = 8
STEPS = 512  # Of each environment, for one update.
EPOCHS = 30  # Gradient steps of an update, each on all of its rows.
EPISODES = 20  # Of an evaluation.


def make_env():
    return gymnasium.make("CartPole-v1")


def make_env_for_tf_agents():
    return adapter.to_tf_agents(make_env())


def make_batch(kind):
    if kind == "parallel_envs":
        return adapter.ParallelPyEnvironment([make_env] * NUM_ENVS, num_workers=2)
    # Without this, or `handle_main`, TF-Agents starts no process.
    system_multiprocessing.enable_interactive_mode()
    return parallel_py_environment.ParallelPyEnvironment(
        [make_env_for_tf_agents] * NUM_ENVS
    )


def make_agent(time_step_spec, action_spec):
    layers = {"fc_layer_params": (64, 64), "activation_fn": tf.nn.tanh}
    agent = ppo_clip_agent.PPOClipAgent(
        time_step_spec,
        action_spec,
        optimizer=tf.keras.optimizers.Adam(1e-3),
        actor_net=actor_distribution_network.ActorDistributionNetwork(
            time_step_spec.observation, action_spec, **layers
        ),
        value_net=value_network.ValueNetwork(time_step_spec.observation, **layers),
        gradient_clipping=0.5,
        num_epochs=1,  # `train` is called for each: quicker to compile than all in one.
        discount_factor=0.99,
        lambda_value=0.95,
        entropy_regularization=0.01,
        use_gae=True,
        use_td_lambda_return=True,
        normalize_observations=False,
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
        agent.collect_data_spec, NUM_ENVS, max_length=2 * STEPS
    )
    driver = dynamic_step_driver.DynamicStepDriver(
        tf_env, agent.collect_policy, [buffer.add_batch], num_steps=NUM_ENVS * STEPS
    )
    policy = py_tf_eager_policy.PyTFEagerPolicy(
        agent.policy, use_tf_function=True, batch_time_steps=False
    )
    collect, update = common.function(driver.run), common.function(agent.train)

    num_updates = flags.max_steps // (NUM_ENVS * STEPS)
    collecting = 0.0
    for updates in range(1, num_updates + 1):
        since = time.monotonic()
        collect()
        collecting += time.monotonic() - since
        experience = buffer.gather_all()
        for _ in range(EPOCHS):
            update(experience)
        buffer.clear()
        yield {
            "steps": updates * NUM_ENVS * STEPS,
            "mean_return": mean_return(eval_env, policy),
            "seconds": time.monotonic() - started,
            "seconds_collecting": collecting,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    batches = ["parallel_envs", "tf_agents"]
    parser.add_argument("--batch", choices=batches, default="parallel_envs")
    parser.add_argument("--goal", type=float, default=475, help="mean return to end at")
    parser.add_argument("--max_steps", type=int, default=60_000, help="of all rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default="ppo.jsonl", help="gets a line for a run")
    flags = parser.parse_args()

    tf.config.threading.set_intra_op_parallelism_threads(1)  # The networks are small.
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(flags.seed)
    # Cheap environments are evaluated in this process, without asking another.
    eval_env = adapter.BatchedPyEnvironment([make_env() for _ in range(EPISODES)])
    with make_batch(flags.batch) as env, eval_env:
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
