"""Shipped SMC code replays every trace of the filters in `reference.hmm`, free and retained."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide.algorithms.particle_filter import Extend, FirstState
from aide.smc.smc import log_xi_of
from aide.smc.sweep import Retained, run_segment, slots_of_path, start, take_path
from reference.hmm import OBSERVATIONS, Traces
from reference.scripted import ScriptedExtend, ScriptedInitial, ScriptedScheme, key_per_slot


def free_run(model: Any, proposal: Any, policy: Any, states: Any, ancestors: Any) -> Any:
    """The shipped log xi of one scripted free run, for every output index.

    `policy` makes a resampler from a scheme. The path is traced back by the library too.
    """
    key, num = jax.random.key(0), states.shape[1]
    first = FirstState(model, proposal)
    population = start(key, ScriptedInitial(states[0]).sample, first.log_weight, num, None)
    rows = []
    for t in (1, 2):
        move = ScriptedExtend(Extend(model, proposal, OBSERVATIONS[t], t), states[t])
        resampler = policy(ScriptedScheme(ancestors[t - 1]))
        population, (_, row) = run_segment(key, move, resampler, population, None, lambda _: None)
        rows.append(row)
    genealogy = None if rows[0] is None else jnp.stack(rows)

    def log_xi(chosen: Any) -> Any:
        path = take_path(states, slots_of_path(genealogy, chosen, len(states)))
        return log_xi_of(model.log_joint(path), population)

    return jax.vmap(log_xi)(jnp.arange(num))


def retained_run(
    model: Any, proposal: Any, policy: Any, keys: Any, trace: tuple[Any, ...], lineage: Any
) -> Any:
    """The shipped log xi of the same trace, run around the path in the slots `lineage`.

    The script holds a wrong state in the retained slots: the sweep must overwrite it. `keys` are
    those of `key_per_slot`.
    """
    states, ancestors, slots = trace
    first = FirstState(model, proposal)
    path = states[jnp.arange(3), lineage]
    script = states.at[jnp.arange(3), lineage].set(1 - path)
    initial = ScriptedInitial(script[0])
    population = start(keys[lineage[0]], initial.sample, first.log_weight, states.shape[1], path[0])
    for t in (1, 2):
        extend = Extend(model, proposal, OBSERVATIONS[t], t)
        kept = Retained(path[t], extend.log_weight(path[t - 1], path[t]))
        resampler = policy(ScriptedScheme(ancestors[t - 1], slots[t - 1]))
        move = ScriptedExtend(extend, script[t])
        population, _ = run_segment(jax.random.key(0), move, resampler, population, kept)
    return log_xi_of(model.log_joint(path), population)


def replay(model: Any, proposal: Any, policy: Any, traces: Traces, low: np.ndarray) -> np.ndarray:
    """Xi of every trace and output index, [2, N, P]: from free runs and from retained runs.

    Where a trace does not resample (`low` is false, [N, 2]), the scheme offers wrong ancestors and
    a wrong slot: the policy must ignore both.
    """
    num = traces.states.shape[2]
    lineage = traces.lineage()
    offered = np.where(low[:, :, None], traces.ancestors, (traces.ancestors + 1) % num)
    slots = np.where(low[:, None, :], lineage[:, :, 1:], (lineage[:, :, 1:] + 1) % num)
    keys = key_per_slot(num)

    def run(model: Any, proposal: Any, states: Any, ancestors: Any, slots: Any, path: Any) -> Any:
        def around(slots: Any, path: Any) -> Any:
            trace = (states, ancestors, slots)
            return retained_run(model, proposal, policy, keys, trace, path)

        free = free_run(model, proposal, policy, states, ancestors)
        return jnp.exp(jnp.stack([free, jax.vmap(around)(slots, path)]))

    # It runs once: compiling it with all optimisations would take longer than running it.
    all_runs = jax.vmap(run, (None, None, 0, 0, 0, 0), 1)
    quickly = jax.jit(all_runs, compiler_options={"xla_backend_optimization_level": 0})
    script = [jnp.asarray(part, jnp.int32) for part in (traces.states, offered, slots, lineage)]
    return np.asarray(quickly(model, proposal, *script))
