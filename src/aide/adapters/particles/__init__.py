"""`particles` (Chopin): its filters and its conditional SMC, in an interpreter of their own.

filtered = aide.particles.particle_filter("model.py", python=".venv-particles/bin/python",
                                          num_particles=20)
"""

from aide.adapters.particles.filter import ParticlesFilter, particle_filter

__all__ = [
    "ParticlesFilter",
    "particle_filter",
]
