"""`particles` (Chopin): its filters and its conditional SMC, run by another interpreter.

filtered = aide.particles.particle_filter("model.py", python=".venv-particles/bin/python",
                                          num_particles=20)
"""

from aide.adapters.particles.filter import ParticlesFilter, particle_filter

__all__ = [
    "ParticlesFilter",
    "particle_filter",
]
